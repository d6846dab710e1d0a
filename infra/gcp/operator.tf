# The chargeonce command, with the settings and the network of what it looks at, and without a secret
# on anybody's desk: docs/deploy-gcp.md says how it is called.

resource "google_cloud_run_v2_job" "command" {
  name                = "${var.name}-command"
  location            = var.region
  deletion_protection = false

  template {
    template {
      service_account = google_service_account.operator.email
      # A command that failed half-way is for people to look at.
      max_retries = 0
      timeout     = "3600s"

      containers {
        image   = var.image
        command = ["python", "-m", "ops"]
        args    = ["--help"]

        dynamic "env" {
          for_each = local.settings
          content {
            name  = env.key
            value = env.value
          }
        }

        dynamic "env" {
          for_each = local.secrets
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
  }

  depends_on = [google_secret_manager_secret_iam_member.reads]
}
