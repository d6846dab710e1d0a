locals {
  # The longest that Pub/Sub keeps what nobody has acknowledged.
  retention      = "2678400s"
  never_expires  = ""
  pubsub_service = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  events_subscription = var.delivery == "push" ? google_pubsub_subscription.push[0] : google_pubsub_subscription.pull[0]
}

resource "google_pubsub_topic" "events" {
  # checkov:skip=CKV_GCP_83: Google encrypts them; with a key of ours, losing the key would lose events
  name                       = "${var.name}-events"
  message_retention_duration = local.retention
}

# One of the two subscriptions exists. They differ in how they deliver, and in nothing else.

resource "google_pubsub_subscription" "push" {
  count = var.delivery == "push" ? 1 : 0

  name                       = "${var.name}-push"
  topic                      = google_pubsub_topic.events.id
  ack_deadline_seconds       = var.ack_deadline_seconds
  message_retention_duration = local.retention

  push_config {
    push_endpoint = google_cloudfunctions2_function.bill[0].service_config[0].uri

    oidc_token {
      service_account_email = google_service_account.pusher[0].email
      audience              = google_cloudfunctions2_function.bill[0].service_config[0].uri
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
  depends_on = [google_cloud_run_v2_service_iam_member.pusher_invokes_bill]
}

resource "google_pubsub_subscription" "pull" {
  count = var.delivery == "pull" ? 1 : 0

  name                         = "${var.name}-pull"
  topic                        = google_pubsub_topic.events.id
  ack_deadline_seconds         = var.ack_deadline_seconds
  message_retention_duration   = local.retention
  enable_exactly_once_delivery = var.exactly_once_delivery

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
  subscription = local.events_subscription.id
  role         = "roles/pubsub.subscriber"
  member       = local.pubsub_service
}
