output "calls_url" {
  description = "VAULT_PROXY_URL of those who only charge."
  value       = google_cloudfunctions2_function.part["calls"].service_config[0].uri
}

output "admin_url" {
  description = "VAULT_PROXY_URL of `chargeonce vault` and of whoever mints."
  value       = google_cloudfunctions2_function.part["admin"].service_config[0].uri
}
