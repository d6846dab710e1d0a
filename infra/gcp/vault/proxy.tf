# The spend-cap proxy (docs/vault.md). What forwards calls holds the Stripe key, what mints vault keys
# holds the admin token, and neither holds the other's. A timer asks Stripe about payments of unknown
# outcome, so that what they hold of a cap comes to an end.

locals {
  parts = {
    calls = {
      entry_point = "vault_proxy"
      serves      = "calls"
      secrets     = { DATABASE_URL = "database-url", STRIPE_API_KEY = "stripe-api-key" }
      ingress     = var.ingress
      # The key is the authentication: Stripe's SDKs send it where Cloud Run looks for its own token.
      caller      = "allUsers"
      timeout     = var.timeout_seconds
      concurrency = var.concurrency
      instances   = var.max_instances
      settings    = {}
    }
    admin = {
      entry_point = "vault_proxy"
      serves      = "admin"
      secrets     = { DATABASE_URL = "database-url", VAULT_ADMIN_TOKEN = "admin-token" }
      ingress     = var.ingress
      caller      = "allUsers"
      timeout     = var.timeout_seconds
      concurrency = var.concurrency
      instances   = 1
      settings    = {}
    }
    reconcile = {
      entry_point = "reconcile"
      serves      = "calls"
      secrets     = { DATABASE_URL = "database-url", STRIPE_API_KEY = "stripe-api-key" }
      ingress     = "ALLOW_INTERNAL_ONLY"
      caller      = google_service_account.scheduler.member
      timeout     = 300
      concurrency = 1
      instances   = 1
      settings    = { SCHEDULER_SERVICE_ACCOUNT = google_service_account.scheduler.email }
    }
  }

  reads = merge([
    for part, each in local.parts : {
      for secret in values(each.secrets) : "${part}-${secret}" => { part = part, secret = secret }
    }
  ]...)
}

resource "google_service_account" "part" {
  for_each = local.parts

  account_id   = "${var.name}-${each.key}"
  display_name = "The spend-cap proxy: ${each.key}"
}

resource "google_secret_manager_secret_iam_member" "reads" {
  for_each = local.reads

  secret_id = "${var.name}-${each.value.secret}"
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.part[each.value.part].member
}

resource "google_cloudfunctions2_function" "part" {
  for_each = local.parts

  name        = "${var.name}-${each.key}"
  location    = var.region
  description = "The spend-cap proxy: ${each.key}"

  build_config {
    runtime         = "python313"
    entry_point     = each.value.entry_point
    service_account = google_service_account.builder.id

    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.part[each.key].email
    ingress_settings                 = each.value.ingress
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = each.value.timeout
    max_instance_request_concurrency = each.value.concurrency
    max_instance_count               = each.value.instances
    vpc_connector                    = var.connector
    vpc_connector_egress_settings    = var.connector == null ? null : "PRIVATE_RANGES_ONLY"

    environment_variables = merge(each.value.settings, {
      VAULT_PROXY_SERVES        = each.value.serves
      THREADS                   = tostring(each.value.concurrency)
      CLOUD_RUN_TIMEOUT_SECONDS = tostring(each.value.timeout)
    })

    dynamic "secret_environment_variables" {
      for_each = each.value.secrets
      content {
        key        = secret_environment_variables.key
        project_id = var.project
        secret     = "${var.name}-${secret_environment_variables.value}"
        version    = var.secret_versions[secret_environment_variables.value]
      }
    }
  }

  depends_on = [
    google_project_iam_member.builder_builds,
    google_secret_manager_secret_iam_member.reads,
  ]
}

# Calls and admin are the only functions of all that Cloud Run lets everybody call who can reach
# them; ingress keeps them inside.
resource "google_cloud_run_v2_service_iam_member" "caller" {
  for_each = local.parts

  name     = google_cloudfunctions2_function.part[each.key].name
  location = var.region
  role     = "roles/run.invoker"
  member   = each.value.caller
}
