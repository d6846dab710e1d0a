resource "google_service_account" "scheduler" {
  account_id   = "${var.name}-timer"
  display_name = "Cloud Scheduler calls the timer under this name"
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
    uri         = google_cloudfunctions2_function.part["reconcile"].service_config[0].uri
    http_method = "POST"

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      audience              = google_cloudfunctions2_function.part["reconcile"].service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.caller]
}
