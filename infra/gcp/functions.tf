resource "google_storage_bucket" "source" {
  # checkov:skip=CKV_GCP_62: it holds published source code; Cloud Audit Logs say who wrote it
  name                        = "${var.project}-${var.name}-source"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  # Older versions of the source must not keep the deployment from being removed.
  force_destroy = true

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

locals {
  # Push needs bill, and each way the timers: what Azure has as timers is called by Cloud Scheduler.
  functions = merge(local.timers, var.delivery == "pull" ? {} : {
    bill = {
      entry_point = "bill"
      description = "Charges what Pub/Sub pushes"
      account     = google_service_account.biller.email
      caller      = google_service_account.pusher[0].member
      concurrency = var.concurrency
      instances   = var.max_instances
      settings    = { PUBSUB_PUSH_SERVICE_ACCOUNT = google_service_account.pusher[0].email }
      secrets     = local.charging_secrets
    }
  })

  timers = {
    for name, timer in local.schedules : name => {
      entry_point = timer.entry_point
      description = timer.description
      account     = google_service_account.timers.email
      caller      = google_service_account.scheduler.member
      concurrency = 1
      instances   = 1
      settings    = { SCHEDULER_SERVICE_ACCOUNT = google_service_account.scheduler.email }
      secrets     = local.secrets
    }
  }
}

resource "google_cloudfunctions2_function" "this" {
  for_each = local.functions

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
    service_account_email            = each.value.account
    ingress_settings                 = "ALLOW_INTERNAL_ONLY"
    all_traffic_on_latest_revision   = true
    available_cpu                    = "1"
    available_memory                 = "512Mi"
    timeout_seconds                  = var.function_timeout_seconds
    max_instance_request_concurrency = each.value.concurrency
    max_instance_count               = each.value.instances
    vpc_connector                    = var.network == null ? null : var.network.connector
    vpc_connector_egress_settings    = var.network == null ? null : var.vpc_egress

    environment_variables = merge(local.settings, each.value.settings, {
      # One thread for each request that an instance is given, one connection for each thread.
      THREADS                   = tostring(each.value.concurrency)
      CLOUD_RUN_TIMEOUT_SECONDS = tostring(var.function_timeout_seconds)
    })

    dynamic "secret_environment_variables" {
      for_each = each.value.secrets
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
