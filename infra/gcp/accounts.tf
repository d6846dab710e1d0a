# One account for each part, with what that part needs.

resource "google_service_account" "biller" {
  account_id   = "${var.name}-biller"
  display_name = "Charges usage events, whether pushed or pulled"
}

resource "google_service_account" "timers" {
  account_id   = "${var.name}-timers"
  display_name = "Opens runs and drives on unfinished records"
}

resource "google_service_account" "operator" {
  account_id   = "${var.name}-operator"
  display_name = "Runs the chargeonce command"
}

resource "google_service_account" "builder" {
  account_id   = "${var.name}-builder"
  display_name = "Builds the functions"
}

resource "google_service_account" "pusher" {
  count = var.delivery == "push" ? 1 : 0

  account_id   = "${var.name}-pusher"
  display_name = "Pub/Sub's push calls the function under this name"
}

resource "google_service_account" "scheduler" {
  account_id   = "${var.name}-scheduler"
  display_name = "Cloud Scheduler calls the timers under this name"
}

# What a build needs, and no more: https://cloud.google.com/functions/docs/building#build-service-account
resource "google_project_iam_member" "builder_builds" {
  for_each = toset([
    "roles/artifactregistry.writer",
    "roles/logging.logWriter",
    "roles/storage.objectViewer",
  ])

  project = var.project
  role    = each.value
  member  = google_service_account.builder.member
}

# Who may call which function. Nobody else may, and no function is open to everybody.

resource "google_cloud_run_v2_service_iam_member" "caller" {
  for_each = local.functions

  name     = google_cloudfunctions2_function.this[each.key].name
  location = var.region
  role     = "roles/run.invoker"
  member   = each.value.caller
}

# Pub/Sub, beyond what Pub/Sub's own account has (pubsub.tf).

resource "google_pubsub_topic_iam_member" "biller_publishes_dead_letters" {
  topic  = google_pubsub_topic.dead_letters.id
  role   = "roles/pubsub.publisher"
  member = google_service_account.biller.member
}

resource "google_pubsub_subscription_iam_member" "biller_pulls" {
  count = var.delivery == "pull" ? 1 : 0

  subscription = google_pubsub_subscription.events.id
  role         = "roles/pubsub.subscriber"
  member       = google_service_account.biller.member
}

resource "google_pubsub_topic_iam_member" "operator_publishes" {
  topic  = google_pubsub_topic.events.id
  role   = "roles/pubsub.publisher"
  member = google_service_account.operator.member
}

resource "google_pubsub_subscription_iam_member" "operator_reads_dead_letters" {
  subscription = google_pubsub_subscription.dead_letters.id
  role         = "roles/pubsub.subscriber"
  member       = google_service_account.operator.member
}

# To look at how they are set: ack deadline, dead letters, expiration.

resource "google_pubsub_topic_iam_member" "operator_looks" {
  for_each = { events = google_pubsub_topic.events.id, dead-letters = google_pubsub_topic.dead_letters.id }

  topic  = each.value
  role   = "roles/pubsub.viewer"
  member = google_service_account.operator.member
}

resource "google_pubsub_subscription_iam_member" "operator_looks" {
  for_each = { events = google_pubsub_subscription.events.id, dead-letters = google_pubsub_subscription.dead_letters.id }

  subscription = each.value
  role         = "roles/pubsub.viewer"
  member       = google_service_account.operator.member
}

# Secrets: of each account those that its settings name.

resource "google_secret_manager_secret_iam_member" "reads" {
  for_each = {
    for pair in setproduct(keys(local.accounts_with_secrets), values(local.secrets)[*].secret) :
    "${pair[0]}-${trimprefix(pair[1], "${var.name}-")}" => { member = local.accounts_with_secrets[pair[0]], secret = pair[1] }
    if pair[0] != "biller" || contains(values(local.charging_secrets)[*].secret, pair[1])
  }

  secret_id = each.value.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = each.value.member
}

locals {
  accounts_with_secrets = {
    biller   = google_service_account.biller.member
    timers   = google_service_account.timers.member
    operator = google_service_account.operator.member
  }
}
