variable "project" {
  description = "The id of the Google Cloud project. Another one than the consumers' keeps the Stripe key furthest from them."
  type        = string
}

variable "region" {
  description = "Where the proxy runs."
  type        = string
  default     = "europe-west1"
}

variable "name" {
  description = "What the names of all resources begin with."
  type        = string
  default     = "chargeonce-vault"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,19}$", var.name))
    error_message = "Use 3 to 20 lower-case letters, digits and dashes: account ids are made of it."
  }
}

variable "source_archive" {
  description = "The zip file that build.sh makes: the same as the consumers'."
  type        = string
}

variable "secret_versions" {
  description = "The version of each secret: database-url, stripe-api-key (the real key) and admin-token."
  type        = map(string)
  default     = { database-url = "1", stripe-api-key = "1", admin-token = "1" }

  validation {
    condition     = alltrue([for version in values(var.secret_versions) : can(regex("^[1-9][0-9]*$", version))])
    error_message = "Name versions by their number. With \"latest\" some instances have the old value and some the new one."
  }
}

variable "ingress" {
  description = "Who can reach the proxy at all. ALLOW_INTERNAL_ONLY: this project's networks. The vault key is the only authentication, so think twice before ALLOW_ALL."
  type        = string
  default     = "ALLOW_INTERNAL_ONLY"

  validation {
    condition     = contains(["ALLOW_INTERNAL_ONLY", "ALLOW_INTERNAL_AND_GCLB", "ALLOW_ALL"], var.ingress)
    error_message = "ingress is ALLOW_INTERNAL_ONLY, ALLOW_INTERNAL_AND_GCLB or ALLOW_ALL."
  }
}

variable "connector" {
  description = "The connector that leads to the database, as the module `database` names it; null when it is reached over the internet."
  type        = string
  default     = null
}

variable "timeout_seconds" {
  description = "When a call is given up: longer than Stripe may take (5 + 30 s)."
  type        = number
  default     = 60

  validation {
    condition     = var.timeout_seconds > 35
    error_message = "The timeout must be longer than STRIPE_CONNECT_TIMEOUT_SECONDS + STRIPE_READ_TIMEOUT_SECONDS (35 s)."
  }
}

variable "concurrency" {
  description = "How many calls one instance forwards at once: its threads, and its database connections."
  type        = number
  default     = 8
}

variable "max_instances" {
  description = "How many instances forward calls."
  type        = number
  default     = 5
}
