"""Mistakes, each of them one edit of what is shipped: file, text, other text, and its rule."""

HOST = "host.json"
MAIN = "infra/azure/main.bicep"
AZURE_PRODUCTION = "infra/azure/production.bicepparam"
QUEUE = "infra/azure/service-bus.bicep"
AZURE_DATABASE = "infra/azure/database.bicep"
VARIABLES = "infra/gcp/variables.tf"
PUBSUB = "infra/gcp/pubsub.tf"
FUNCTIONS = "infra/gcp/functions.tf"
ACCOUNTS = "infra/gcp/accounts.tf"
SETTINGS = "infra/gcp/settings.tf"
GOOGLE_PRODUCTION = "infra/gcp/production.tfvars"
GOOGLE_DATABASE = "infra/gcp/database/variables.tf"
SERVER = "infra/gcp/database/database.tf"
GCLOUD = "infra/gcp/gcloud/common.sh"

RETRY_POLICY = """
  retry_policy {
    minimum_backoff = "${var.minimum_backoff_seconds}s"
    maximum_backoff = "${var.maximum_backoff_seconds}s"
  }

  dead_letter_policy {"""
DEAD_LETTER_POLICY = """
  dead_letter_policy {
    dead_letter_topic     = google_pubsub_topic.dead_letters.id
    max_delivery_attempts = var.max_delivery_attempts
  }
"""
TOKEN = """
      oidc_token {
        service_account_email = google_service_account.pusher[0].email
        audience              = push_config.value
      }
"""
SUBSCRIPTION = 'resource "google_pubsub_subscription" "dead_letters" {'
SECOND_SUBSCRIPTION = f"""resource "google_pubsub_subscription" "pull" {{
  name  = "pull"
  topic = google_pubsub_topic.events.id

  expiration_policy {{
    ttl = ""
  }}
}}

{SUBSCRIPTION}"""
CALLER = 'resource "google_cloud_run_v2_service_iam_member" "caller" {'
OPEN = f"""resource "google_cloud_run_v2_service_iam_member" "everybody" {{
  name   = "chargeonce-bill"
  role   = "roles/run.invoker"
  member = "allUsers"
}}

{CALLER}"""
NO_AUTHENTICATION = """settings = {
  PUBSUB_PUSH_AUTH = "none"
"""
DEAD_LETTERS_OF = """  name                       = "${var.name}-dead-letters"
  topic                      = google_pubsub_topic.dead_letters.id"""

DIRECT = """var directSettings = {
  STRIPE_API_KEY: stripeReference
}"""
WITHOUT_ENCRYPTION_KEY = """var directSettings = {
  VAULT_PROVIDER: 'proxy'
  VAULT_PROXY_URL: 'https://proxy'
  VAULT_PROXY_API_KEY: proxyKeyReference
}"""

PLANTED = {
    "lock 30 s": (MAIN, "= 'PT5M'", "= 'PT30S'", "lock_too_short"),
    "lock below the lease": (MAIN, "= 'PT5M'", "= 'PT3M'", "lock_too_short"),
    "three deliveries": (
        MAIN,
        "maxDeliveryCount int = 100",
        "maxDeliveryCount int = 3",
        "outage_uses_deliveries_up",
    ),
    "other deliveries": (MAIN, "string(maxDeliveryCount)", "'10'", "deliveries_disagree"),
    "expired are deleted": (
        QUEUE,
        "deadLetteringOnMessageExpiration: true",
        "deadLetteringOnMessageExpiration: false",
        "expired_messages_deleted",
    ),
    "expired are not mentioned": (
        QUEUE,
        "    deadLetteringOnMessageExpiration: true\n",
        "",
        "expired_messages_deleted",
    ),
    "duplicate detection": (
        MAIN,
        "requiresDuplicateDetection bool = false",
        "requiresDuplicateDetection bool = true",
        "duplicates_detected",
    ),
    "sessions": (QUEUE, "requiresSession: false", "requiresSession: true", "sessions_required"),
    "lease below the budget": (
        MAIN,
        "claimLeaseSeconds int = 180",
        "claimLeaseSeconds int = 100",
        "settings_refused",
    ),
    "no setting of the queue": (
        MAIN,
        "BILLING_QUEUE: serviceBus",
        "BILLING_QUEU: serviceBus",
        "settings_refused",
    ),
    "threads below calls": (
        MAIN,
        "workerThreads int = 8",
        "workerThreads int = 4",
        "concurrency_above_threads",
    ),
    "ten times the instances": (
        AZURE_PRODUCTION,
        "maximumInstanceCount = 40",
        "maximumInstanceCount = 400",
        "too_many_connections",
    ),
    "ten times the requests": (
        AZURE_PRODUCTION,
        "PerSecond = '2'",
        "PerSecond = '20'",
        "above_stripes_rate",
    ),
    "no limit of requests": (
        AZURE_PRODUCTION,
        "PerSecond = '2'",
        "PerSecond = '0'",
        "above_stripes_rate",
    ),
    "no standby on Azure": (
        AZURE_DATABASE,
        "'ZoneRedundant'",
        "'Disabled'",
        "database_stands_alone",
    ),
    "lazy commits on Azure": (
        AZURE_DATABASE,
        "value: 'on'",
        "value: 'off'",
        "commits_not_synchronous",
    ),
    "no encryption key": (MAIN, DIRECT, WITHOUT_ENCRYPTION_KEY, "settings_refused"),
    "a key in the template": (
        MAIN,
        "STRIPE_API_KEY: stripeReference",
        "STRIPE_API_KEY: 'sk_live_1'",
        "secret_in_template",
    ),
    "auto-complete": (
        HOST,
        '"autoCompleteMessages": false',
        '"autoCompleteMessages": true',
        "host_json_wrong",
    ),
    "prefetch": (HOST, '"prefetchCount": 0', '"prefetchCount": 50', "host_json_wrong"),
    "short renewal": (HOST, '"00:05:00"', '"00:01:00"', "host_json_wrong"),
    "short function timeout": (HOST, '"00:10:00"', '"00:02:00"', "host_json_wrong"),
    "more calls than threads": (
        HOST,
        '"maxConcurrentCalls": 8',
        '"maxConcurrentCalls": 16',
        "concurrency_above_threads",
    ),
    "another renewal": (HOST, '"00:05:00"', '"00:04:00"', "number_differs"),
    "ack deadline 10 s": (
        VARIABLES,
        "default     = 600\n\n  validation",
        "default     = 10\n\n  validation",
        "ack_deadline_too_short",
    ),
    "timeout above the deadline": (
        VARIABLES,
        "default     = 300",
        "default     = 600",
        "timeout_above_ack_deadline",
    ),
    "timeout below the budget": (
        VARIABLES,
        "default     = 300",
        "default     = 120",
        "settings_refused",
    ),
    "Pub/Sub may not publish": (
        PUBSUB,
        "roles/pubsub.publisher",
        "roles/pubsub.viewer",
        "dead_letters_not_granted",
    ),
    "Pub/Sub may not take": (
        PUBSUB,
        "roles/pubsub.subscriber",
        "roles/pubsub.viewer",
        "dead_letters_not_granted",
    ),
    "31 idle days": (
        PUBSUB,
        'never_expires  = ""',
        'never_expires  = "2678400s"',
        "subscription_expires",
    ),
    "usual expiration": (
        PUBSUB,
        "  expiration_policy {\n    ttl = local.never_expires\n  }\n",
        "",
        "subscription_expires",
    ),
    "no retry policy": (PUBSUB, RETRY_POLICY, "\n  dead_letter_policy {", "no_retry_policy"),
    "no dead-letter policy": (PUBSUB, DEAD_LETTER_POLICY, "", "no_dead_letter_policy"),
    "no dead-letter subscription": (
        PUBSUB,
        DEAD_LETTERS_OF,
        DEAD_LETTERS_OF.replace("dead_letters.id", "other.id"),
        "dead_letters_lost",
    ),
    "exactly once with push": (
        VARIABLES,
        "type        = bool\n  default     = false",
        "type        = bool\n  default     = true",
        "exactly_once_with_push",
    ),
    "push and pull": (PUBSUB, SUBSCRIPTION, SECOND_SUBSCRIPTION, "delivered_to_two_subscriptions"),
    "no token": (PUBSUB, TOKEN, "", "push_without_token"),
    "an hour's retention": (PUBSUB, '"2678400s"', '"3600s"', "retention_short"),
    "open to all": (ACCOUNTS, CALLER, OPEN, "function_open_to_everybody"),
    "open by its settings": (
        GOOGLE_PRODUCTION,
        "settings = {",
        NO_AUTHENTICATION,
        "function_open_to_everybody",
    ),
    "threads below concurrency": (
        FUNCTIONS,
        "= tostring(each.value.concurrency)",
        '= "4"',
        "concurrency_above_threads",
    ),
    "pool below threads": (
        GOOGLE_PRODUCTION,
        "settings = {",
        'settings = {\n  DATABASE_POOL_SIZE = "2"',
        "pool_below_threads",
    ),
    "fifty instances": (
        GOOGLE_PRODUCTION,
        "max_instances        = 5",
        "max_instances        = 50",
        "too_many_connections",
    ),
    "other deliveries at Google": (
        SETTINGS,
        "tostring(var.max_delivery_attempts)",
        '"10"',
        "deliveries_disagree",
    ),
    "a secret among the settings": (
        GOOGLE_PRODUCTION,
        "settings = {",
        'settings = {\n  VAULT_ENCRYPTION_KEY = "secret"',
        "secret_in_template",
    ),
    "no standby at Google": (GOOGLE_DATABASE, '= "REGIONAL"', '= "ZONAL"', "database_stands_alone"),
    "lazy commits at Google": (
        SERVER,
        'name  = "synchronous_commit"\n      value = "on"',
        'name  = "synchronous_commit"\n      value = "off"',
        "commits_not_synchronous",
    ),
    "gcloud differs": (
        GCLOUD,
        "ack_deadline_seconds=600",
        "ack_deadline_seconds=60",
        "number_differs",
    ),
}
