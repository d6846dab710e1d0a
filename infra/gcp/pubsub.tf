locals {
  # The longest that Pub/Sub keeps what nobody has acknowledged.
  retention      = "2678400s"
  never_expires  = ""
  pubsub_service = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

resource "google_pubsub_topic" "events" {
  # checkov:skip=CKV_GCP_83: Google encrypts them; with a key of ours, losing the key would lose events
  name                       = "${var.name}-events"
  message_retention_duration = local.retention
}

# One subscription, pushed or pulled: with two, every event would be delivered twice.
resource "google_pubsub_subscription" "events" {
  name                         = "${var.name}-${var.delivery}"
  topic                        = google_pubsub_topic.events.id
  ack_deadline_seconds         = var.ack_deadline_seconds
  message_retention_duration   = local.retention
  enable_exactly_once_delivery = var.exactly_once_delivery

  dynamic "push_config" {
    for_each = var.delivery == "push" ? [google_cloudfunctions2_function.this["bill"].service_config[0].uri] : []
    content {
      push_endpoint = push_config.value

      oidc_token {
        service_account_email = google_service_account.pusher[0].email
        audience              = push_config.value
      }
    }
  }

  # An idle subscription is deleted after 31 days, and billing is idle between periods.
  expiration_policy {
    ttl = local.never_expires
  }

  retry_policy {
    minimum_backoff = "${var.minimum_backoff_seconds}s"
    maximum_backoff = "${var.maximum_backoff_seconds}s"
  }

  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead_letters.id
    max_delivery_attempts = var.max_delivery_attempts
  }

  # Pushed before it may be invoked, an event would use up deliveries for nothing.
  depends_on = [google_cloud_run_v2_service_iam_member.caller]
}

resource "google_pubsub_topic" "dead_letters" {
  # checkov:skip=CKV_GCP_83: Google encrypts them; with a key of ours, losing the key would lose events
  name                       = "${var.name}-dead-letters"
  message_retention_duration = local.retention
}

# Without a subscription a topic keeps nothing for anybody: dead letters would be lost.
resource "google_pubsub_subscription" "dead_letters" {
  name                       = "${var.name}-dead-letters"
  topic                      = google_pubsub_topic.dead_letters.id
  ack_deadline_seconds       = 60
  message_retention_duration = local.retention

  expiration_policy {
    ttl = local.never_expires
  }

  # Whoever looks at a dead letter and leaves it wants it back soon, not at once.
  retry_policy {
    minimum_backoff = "${var.minimum_backoff_seconds}s"
    maximum_backoff = "${var.maximum_backoff_seconds}s"
  }
}

# Pub/Sub itself moves a message to the dead letters. Without these two grants it does not, and a
# message that fails is delivered for as long as it is kept.

resource "google_pubsub_topic_iam_member" "pubsub_publishes_dead_letters" {
  topic  = google_pubsub_topic.dead_letters.id
  role   = "roles/pubsub.publisher"
  member = local.pubsub_service
}

resource "google_pubsub_subscription_iam_member" "pubsub_takes_from_subscription" {
  subscription = google_pubsub_subscription.events.id
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_service
}
