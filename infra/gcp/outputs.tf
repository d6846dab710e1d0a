output "topic" {
  description = "Where usage events are sent."
  value       = google_pubsub_topic.events.id
}

output "subscription" {
  description = "Where they are taken from."
  value       = google_pubsub_subscription.events.id
}

output "dead_letter_subscription" {
  description = "Where dead letters wait."
  value       = google_pubsub_subscription.dead_letters.id
}

output "command_job" {
  description = "The Cloud Run job that runs the chargeonce command."
  value       = google_cloud_run_v2_job.command.name
}
