# The spend-cap proxy (docs/vault.md), twice: what forwards calls holds the Stripe key, what mints
# vault keys holds the admin token, and neither holds the other's.

locals {
  parts = {
    calls = { secrets = { DATABASE_URL = "database-url", STRIPE_API_KEY = "stripe-api-key" }, instances = var.max_instances }
    admin = { secrets = { DATABASE_URL = "database-url", VAULT_ADMIN_TOKEN = "admin-token" }, instances = 1 }
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
    entry_point     = "vault_proxy"
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
    ingress_settings                 = var.ingress
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = var.timeout_seconds
    max_instance_request_concurrency = var.concurrency
    max_instance_count               = each.value.instances
    vpc_connector                    = var.connector
    vpc_connector_egress_settings    = var.connector == null ? null : "PRIVATE_RANGES_ONLY"

    environment_variables = {
      VAULT_PROXY_SERVES        = each.key
      THREADS                   = tostring(var.concurrency)
      CLOUD_RUN_TIMEOUT_SECONDS = tostring(var.timeout_seconds)
    }

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

# The only functions that Cloud Run lets everybody call who can reach them: Stripe's SDKs send the
# vault key where Cloud Run looks for its own token. Ingress keeps them inside.
resource "google_cloud_run_v2_service_iam_member" "callers" {
  # checkov:skip=CKV_GCP_102: the vault key and the admin token are the authentication; see above
  for_each = google_cloudfunctions2_function.part

  name     = each.value.name
  location = var.region
  role     = "roles/run.invoker"
  member   = "allUsers"
}
