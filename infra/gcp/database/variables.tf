variable "project" {
  description = "The id of the Google Cloud project."
  type        = string
}

variable "region" {
  description = "The region of everything else too."
  type        = string
  default     = "europe-west1"
}

variable "name" {
  description = "What the names of all resources begin with."
  type        = string
  default     = "chargeonce"
}

variable "tier" {
  description = "The machine of the database."
  type        = string
  default     = "db-custom-2-7680"
}

variable "availability" {
  description = "REGIONAL writes every commit to two zones before it answers. ZONAL is for development: what a lost zone takes with it could be charged again."
  type        = string
  default     = "REGIONAL"

  validation {
    condition     = contains(["REGIONAL", "ZONAL"], var.availability)
    error_message = "availability is REGIONAL or ZONAL."
  }
}

variable "max_connections" {
  description = "What the database allows: instances times concurrency, the workers', and some for people."
  type        = number
  default     = 100
}

variable "deletion_protection" {
  description = "Whether the database refuses to be deleted, by Terraform and in the console."
  type        = bool
  default     = true
}
