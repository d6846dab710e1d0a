resource "google_cloud_run_v2_worker_pool" "pull" {
  count = var.delivery == "pull" ? 1 : 0

  name     = "${var.name}-pull"
  location = var.region
  # Worker pools are not generally available yet.
  launch_stage        = "BETA"
  deletion_protection = false

  scaling {
    scaling_mode          = "MANUAL"
    manual_instance_count = var.worker_instances
  }

  template {
    service_account = google_service_account.biller.email

    containers {
      image   = var.image
      command = ["python", "-m", "gcp_function.pull"]

      resources {
        limits = { cpu = "1", memory = "512Mi" }
      }

      dynamic "env" {
        for_each = local.worker_settings
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = local.charging_secrets
        content {
          name = env.key
          value_source {
            secret_key_ref {
              secret  = env.value.secret
              version = env.value.version
            }
          }
        }
      }
    }

    dynamic "vpc_access" {
      for_each = var.network == null ? [] : [var.network]
      content {
        egress = var.vpc_egress
        network_interfaces {
          network    = vpc_access.value.network
          subnetwork = vpc_access.value.subnetwork
        }
      }
    }
  }

  depends_on = [
    google_pubsub_subscription_iam_member.biller_pulls,
    google_secret_manager_secret_iam_member.reads,
  ]
}

locals {
  worker_settings = merge(local.settings, {
    PUBSUB_SUBSCRIPTION = google_pubsub_subscription.events.name
    WORKER_CONCURRENCY  = tostring(var.concurrency)
  })
}
