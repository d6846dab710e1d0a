# The settings of everything that runs here, each written once.

locals {
  settings = merge(var.settings, {
    GOOGLE_CLOUD_PROJECT            = var.project
    PUBSUB_TOPIC                    = google_pubsub_topic.events.name
    PUBSUB_DEAD_LETTER_TOPIC        = google_pubsub_topic.dead_letters.name
    PUBSUB_DEAD_LETTER_SUBSCRIPTION = google_pubsub_subscription.dead_letters.name
    BILLING_MAX_DELIVERIES          = tostring(var.max_delivery_attempts)
    CHARGE_BUDGET_SECONDS           = tostring(var.charge_budget_seconds)
    CLAIM_LEASE_SECONDS             = tostring(var.claim_lease_seconds)
    STRIPE_CONNECT_TIMEOUT_SECONDS  = tostring(var.stripe_connect_timeout_seconds)
    STRIPE_READ_TIMEOUT_SECONDS     = tostring(var.stripe_read_timeout_seconds)
    STRIPE_MAX_REQUESTS_PER_SECOND  = tostring(var.max_requests_per_second)
  })

  # DATABASE_URL comes from the secret NAME-database-url, and so on.
  secrets = {
    for secret, version in var.secret_versions :
    upper(replace(secret, "-", "_")) => { secret = "${var.name}-${secret}", version = version }
  }

  # Who charges through a spend-cap proxy mints no keys for it: the timers do, and people.
  charging_secrets = { for setting, each in local.secrets : setting => each if setting != "VAULT_PROXY_API_KEY" }
}
