# Asks Stripe about payments of unknown outcome, so that what they hold of a cap comes to an end.
# With what the part that forwards calls has; called by Cloud Scheduler alone.

resource "google_cloudfunctions2_function" "timer" {
  name        = "${var.name}-reconcile"
  location    = var.region
  description = "The spend-cap proxy: resolves holds"

  build_config {
    runtime         = "python313"
    entry_point     = "reconcile"
    service_account = google_service_account.builder.id

    source {
      storage_source {
        bucket = google_storage_bucket.source.name
        object = google_storage_bucket_object.source.name
      }
    }
  }

  service_config {
    service_account_email            = google_service_account.part["calls"].email
    ingress_settings                 = "ALLOW_INTERNAL_ONLY"
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = 300
    max_instance_request_concurrency = 1
    max_instance_count               = 1
    vpc_connector                    = var.connector
    vpc_connector_egress_settings    = var.connector == null ? null : "PRIVATE_RANGES_ONLY"

    environment_variables = {
      VAULT_PROXY_SERVES        = "calls"
      THREADS                   = "1"
      CLOUD_RUN_TIMEOUT_SECONDS = "300"
      SCHEDULER_SERVICE_ACCOUNT = google_service_account.scheduler.email
    }

    dynamic "secret_environment_variables" {
      for_each = local.parts.calls.secrets
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

resource "google_service_account" "scheduler" {
  account_id   = "${var.name}-timer"
  display_name = "Cloud Scheduler calls the timer under this name"
}

resource "google_cloud_run_v2_service_iam_member" "scheduler_invokes_timer" {
  name     = google_cloudfunctions2_function.timer.name
  location = var.region
  role     = "roles/run.invoker"
  member   = google_service_account.scheduler.member
}

resource "google_cloud_scheduler_job" "timer" {
  name             = "${var.name}-reconcile"
  region           = var.region
  description      = "The spend-cap proxy: resolves holds"
  schedule         = "*/5 * * * *"
  time_zone        = "Etc/UTC"
  attempt_deadline = "320s"

  # Within a minute a second firing is taken for a double of the first and does nothing.
  retry_config {
    retry_count          = 3
    min_backoff_duration = "60s"
    max_backoff_duration = "600s"
  }

  http_target {
    uri         = google_cloudfunctions2_function.timer.service_config[0].uri
    http_method = "POST"

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      audience              = google_cloudfunctions2_function.timer.service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.scheduler_invokes_timer]
}
