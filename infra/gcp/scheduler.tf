locals {
  schedules = {
    reconcile = {
      entry_point = "reconcile"
      schedule    = var.reconcile_schedule
      description = "Finishes what no message drives on"
    }
    mint = {
      entry_point = "mint_vault_key"
      schedule    = var.mint_schedule
      description = "Opens the run of the period that is due"
    }
  }
}

resource "google_cloud_scheduler_job" "timer" {
  for_each = local.schedules

  name             = "${var.name}-${each.key}"
  region           = var.region
  description      = each.value.description
  schedule         = each.value.schedule
  time_zone        = "Etc/UTC"
  attempt_deadline = "${var.function_timeout_seconds + 20}s"

  # Within a minute a second firing is taken for a double of the first and does nothing.
  retry_config {
    retry_count          = 3
    min_backoff_duration = "60s"
    max_backoff_duration = "600s"
  }

  http_target {
    uri         = google_cloudfunctions2_function.this[each.key].service_config[0].uri
    http_method = "POST"

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      audience              = google_cloudfunctions2_function.this[each.key].service_config[0].uri
    }
  }

  depends_on = [google_cloud_run_v2_service_iam_member.caller]
}
