output "calls_url" {
  description = "VAULT_PROXY_URL: where calls go."
  value       = google_cloudfunctions2_function.part["calls"].service_config[0].uri
}

output "admin_url" {
  description = "VAULT_ADMIN_URL: where keys are minted."
  value       = google_cloudfunctions2_function.part["admin"].service_config[0].uri
}
