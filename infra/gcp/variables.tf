# What is yours.

variable "project" {
  description = "The id of the Google Cloud project."
  type        = string
}

variable "region" {
  description = "Where functions, workers and timers run. Keep the database in the same region."
  type        = string
  default     = "europe-west1"
}

variable "name" {
  description = "What the names of all resources begin with."
  type        = string
  default     = "chargeonce"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,14}$", var.name))
    error_message = "Use 3 to 15 lower-case letters, digits and dashes: account ids are made of it."
  }
}

variable "source_archive" {
  description = "The zip file that build.sh makes of what the functions need."
  type        = string
}

variable "image" {
  description = "The container image that build.sh makes, by its digest: for the worker and the command line."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Name the image by its digest (NAME@sha256:...), so that what runs is what was tested."
  }
}

variable "delivery" {
  description = "How events come: push to a function, or pull by a worker. One of the two: with a subscription each, every event would be delivered twice."
  type        = string
  default     = "push"

  validation {
    condition     = contains(["push", "pull"], var.delivery)
    error_message = "delivery is either push or pull."
  }
}

# Numbers. They hang together; docs/numbers.md says how.

variable "ack_deadline_seconds" {
  description = "How long a delivery may take before Pub/Sub delivers it again. For push also above the function's timeout."
  type        = number
  default     = 600

  validation {
    condition     = var.ack_deadline_seconds <= 600 && var.ack_deadline_seconds > var.claim_lease_seconds
    error_message = "The ack deadline is at most 600 s and longer than claim_lease_seconds: else an event comes again while it is being charged."
  }

  validation {
    condition     = var.delivery == "pull" || var.ack_deadline_seconds > var.function_timeout_seconds
    error_message = "The ack deadline must be longer than function_timeout_seconds: else Pub/Sub pushes again while the first request still runs."
  }
}

variable "function_timeout_seconds" {
  description = "When a request to a function is given up. Reconcile uses all of 275 s."
  type        = number
  default     = 300

  validation {
    condition     = var.function_timeout_seconds > var.charge_budget_seconds + var.stripe_connect_timeout_seconds + var.stripe_read_timeout_seconds
    error_message = "The function's timeout must be longer than the budget and one attempt at Stripe: else a charge is cut off half-way."
  }
}

variable "charge_budget_seconds" {
  description = "What one delivery may spend at Stripe."
  type        = number
  default     = 120
}

variable "claim_lease_seconds" {
  description = "How long a consumer holds a record."
  type        = number
  default     = 180

  validation {
    condition     = var.claim_lease_seconds > var.charge_budget_seconds + var.stripe_connect_timeout_seconds + var.stripe_read_timeout_seconds
    error_message = "The lease must be longer than the budget and one attempt at Stripe: else it lapses while Stripe is answering."
  }
}

variable "stripe_connect_timeout_seconds" {
  description = "How long connecting to Stripe may take."
  type        = number
  default     = 5
}

variable "stripe_read_timeout_seconds" {
  description = "How long Stripe's answer may take."
  type        = number
  default     = 30
}

variable "max_delivery_attempts" {
  description = "After how many deliveries Pub/Sub dead-letters. The most there is: backed off to 600 s they outlast 15 hours without the database. With a database, the last but one keeps the event there."
  type        = number
  default     = 100

  validation {
    condition     = var.max_delivery_attempts >= 5 && var.max_delivery_attempts <= 100
    error_message = "Pub/Sub takes 5 to 100 delivery attempts."
  }
}

variable "minimum_backoff_seconds" {
  description = "How long an event that must wait stays away the first time."
  type        = number
  default     = 10
}

variable "maximum_backoff_seconds" {
  description = "How long an event that must wait stays away at most."
  type        = number
  default     = 600

  validation {
    condition     = var.minimum_backoff_seconds >= 1 && var.maximum_backoff_seconds >= var.minimum_backoff_seconds && var.maximum_backoff_seconds <= 600
    error_message = "Back-off lies between 1 s and 600 s: without it Pub/Sub delivers again at once, also while Stripe is down."
  }
}

variable "concurrency" {
  description = "How many events one instance charges at once: its threads, and its database connections."
  type        = number
  default     = 8
}

variable "max_instances" {
  description = "How many instances the push function may have. Times concurrency: connections that the database must allow."
  type        = number
  default     = 5
}

variable "worker_instances" {
  description = "How many pull workers run."
  type        = number
  default     = 2
}

variable "max_requests_per_second" {
  description = "How many requests an instance sends to Stripe each second; 0 sets no limit. Stripe allows an account about 100 live and 25 in test mode, over all instances."
  type        = number
  default     = 10
}

variable "exactly_once_delivery" {
  description = "Whether the pull subscription delivers exactly once. It saves duplicates, not double charges: those are prevented anyway."
  type        = bool
  default     = false

  validation {
    condition     = !var.exactly_once_delivery || var.delivery == "pull"
    error_message = "Pub/Sub delivers exactly once to pull subscriptions alone."
  }
}

# Schedules, in UTC.

variable "reconcile_schedule" {
  description = "When unfinished records are driven on."
  type        = string
  default     = "*/5 * * * *"
}

variable "mint_schedule" {
  description = "When the run of the period that is due is opened."
  type        = string
  default     = "0 3 1 * *"
}

# Secrets: made by secrets.sh, named here with the version that is in use.

variable "secret_versions" {
  description = "The version of each secret. Pinned: a changed secret takes effect when you say so, on all instances."
  type        = map(string)
  default     = { database-url = "1", stripe-api-key = "1" }

  validation {
    condition     = alltrue([for version in values(var.secret_versions) : can(regex("^[1-9][0-9]*$", version))])
    error_message = "Name versions by their number. With \"latest\" some instances have the old value and some the new one."
  }
}

variable "settings" {
  description = "Further settings, such as BILLING_CURRENCY; see the README. No secrets."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(setintersection(keys(var.settings), ["DATABASE_URL", "STRIPE_API_KEY", "VAULT_PROXY_API_KEY", "VAULT_ENCRYPTION_KEY", "KEYBRAKE_API_KEY", "KEYBRAKE_VAULT_KEY"])) == 0
    error_message = "Secrets belong into Secret Manager (secrets.sh): what is written here can be read by everybody who may look at the function."
  }

  validation {
    condition     = length(setintersection(keys(var.settings), ["PUBSUB_PUSH_AUTH", "SCHEDULER_AUTH"])) == 0
    error_message = "Leave the authentication at iam: Cloud Run then lets only the invokers through that are named here."
  }
}

# The network, where the database has an address of its own.

variable "network" {
  description = "The network that leads to the database, as the module `database` names it; null when the database is reached over the internet."
  type        = object({ network = string, subnetwork = string, connector = string })
  default     = null
}

variable "vpc_egress" {
  description = "What goes through that network. ALL_TRAFFIC where Stripe is reached through the spend-cap proxy, which takes calls from inside alone; the rest of the internet is then out of reach."
  type        = string
  default     = "PRIVATE_RANGES_ONLY"

  validation {
    condition     = contains(["PRIVATE_RANGES_ONLY", "ALL_TRAFFIC"], var.vpc_egress)
    error_message = "vpc_egress is PRIVATE_RANGES_ONLY or ALL_TRAFFIC."
  }
}

# Alerts.

variable "notification_channels" {
  description = "Who is told: ids of Cloud Monitoring's notification channels (projects/.../notificationChannels/...)."
  type        = list(string)
  default     = []
}

variable "oldest_message_hours" {
  description = "An event that waits for longer is an alert. It is kept for 31 days."
  type        = number
  default     = 6

  validation {
    condition     = var.oldest_message_hours >= 1 && var.oldest_message_hours <= 24 * 14
    error_message = "Leave time to act before the event is lost after 31 days: 1 to 336 hours."
  }
}
