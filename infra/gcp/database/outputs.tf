output "instance" {
  description = "The name of the database's instance, for database.sh."
  value       = google_sql_database_instance.this.name
}

output "network" {
  description = "The variable `network` of infra/gcp."
  value = {
    network    = google_compute_network.this.id
    subnetwork = google_compute_subnetwork.run.id
    connector  = google_vpc_access_connector.functions.id
  }
}
