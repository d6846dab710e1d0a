resource "google_storage_bucket" "source" {
  # checkov:skip=CKV_GCP_62: it holds published source code; Cloud Audit Logs say who wrote it
  name                        = "${var.project}-${var.name}-source"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  versioning {
    enabled = true
  }

  # What was deployed stays for a while, to go back to.
  lifecycle_rule {
    condition {
      days_since_noncurrent_time = 90
    }
    action {
      type = "Delete"
    }
  }
}

# A new name for new content, so that the functions are deployed anew when it changes.
resource "google_storage_bucket_object" "source" {
  name   = "functions-${filesha256(var.source_archive)}.zip"
  bucket = google_storage_bucket.source.name
  source = var.source_archive
}

resource "google_cloudfunctions2_function" "bill" {
  count = var.delivery == "push" ? 1 : 0

  name        = "${var.name}-bill"
  location    = var.region
  description = "Charges what Pub/Sub pushes"

  build_config {
    runtime         = "python313"
    entry_point     = "bill"
    service_account = google_service_account.builder.id

    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.biller.email
    ingress_settings                 = "ALLOW_INTERNAL_ONLY"
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = var.function_timeout_seconds
    max_instance_request_concurrency = var.concurrency
    max_instance_count               = var.max_instances
    vpc_connector                    = var.network == null ? null : var.network.connector
    vpc_connector_egress_settings    = var.network == null ? null : "PRIVATE_RANGES_ONLY"

    environment_variables = merge(local.function_settings, {
      PUBSUB_PUSH_SERVICE_ACCOUNT = google_service_account.pusher[0].email
    })

    dynamic "secret_environment_variables" {
      for_each = local.secrets
      content {
        key        = secret_environment_variables.key
        project_id = var.project
        secret     = secret_environment_variables.value.secret
        version    = secret_environment_variables.value.version
      }
    }
  }

  depends_on = [
    google_project_iam_member.builder_builds,
    google_secret_manager_secret_iam_member.reads,
  ]
}

# What Azure has as timers: HTTP functions that Cloud Scheduler calls.
resource "google_cloudfunctions2_function" "timer" {
  for_each = local.timers

  name        = "${var.name}-${each.key}"
  location    = var.region
  description = each.value.description

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
    service_account_email            = google_service_account.timers.email
    ingress_settings                 = "ALLOW_INTERNAL_ONLY"
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = var.function_timeout_seconds
    max_instance_request_concurrency = 1
    max_instance_count               = 1
    vpc_connector                    = var.network == null ? null : var.network.connector
    vpc_connector_egress_settings    = var.network == null ? null : "PRIVATE_RANGES_ONLY"

    environment_variables = merge(local.function_settings, {
      THREADS                   = "1"
      SCHEDULER_SERVICE_ACCOUNT = google_service_account.scheduler.email
    })

    dynamic "secret_environment_variables" {
      for_each = local.secrets
      content {
        key        = secret_environment_variables.key
        project_id = var.project
        secret     = secret_environment_variables.value.secret
        version    = secret_environment_variables.value.version
      }
    }
  }

  depends_on = [
    google_project_iam_member.builder_builds,
    google_secret_manager_secret_iam_member.reads,
  ]
}
