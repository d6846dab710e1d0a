# The promise rests on this: a commit that the database has answered is kept.
resource "google_sql_database_instance" "this" {
  # checkov:skip=CKV_GCP_55: log_min_messages is Google's default, which is "warning" and tells enough
  # checkov:skip=CKV_GCP_109: log_min_error_statement at "error" would write statements with amounts into the log
  # checkov:skip=CKV_GCP_110: every decision has a row of its own; pgaudit would double the writes
  # checkov:skip=CKV_GCP_111: logging statements would write customers into the log
  # checkov:skip=CKV_GCP_108: looking up the name of each client would slow every connection
  # checkov:skip=CKV2_GCP_13: the duration of every statement is a line for every statement
  # checkov:skip=CKV_GCP_6: every connection is encrypted; certificates for clients would be secrets more
  # checkov:skip=CKV_GCP_79: 17 is the newest that the tests run on
  name                = var.name
  region              = var.region
  database_version    = "POSTGRES_17"
  deletion_protection = var.deletion_protection

  settings {
    tier                        = var.tier
    edition                     = "ENTERPRISE"
    availability_type           = var.availability
    deletion_protection_enabled = var.deletion_protection
    disk_autoresize             = true

    ip_configuration {
      ipv4_enabled    = false
      private_network = google_compute_network.this.id
      ssl_mode        = "ENCRYPTED_ONLY"
    }

    # A restore to a point in time loses what came after it: see docs/rebuild.md before you use one.
    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
      transaction_log_retention_days = 7

      backup_retention_settings {
        retained_backups = 30
      }
    }

    maintenance_window {
      day          = 3
      hour         = 10
      update_track = "stable"
    }

    # "off" would answer before the commit is safe, and so bring double charges back.
    database_flags {
      name  = "synchronous_commit"
      value = "on"
    }

    database_flags {
      name  = "max_connections"
      value = tostring(var.max_connections)
    }

    database_flags {
      name  = "log_checkpoints"
      value = "on"
    }

    database_flags {
      name  = "log_connections"
      value = "on"
    }

    database_flags {
      name  = "log_disconnections"
      value = "on"
    }

    database_flags {
      name  = "log_lock_waits"
      value = "on"
    }
  }

  depends_on = [google_service_networking_connection.google]
}

resource "google_sql_database" "this" {
  name     = "chargeonce"
  instance = google_sql_database_instance.this.name
  # Records of charges are not thrown away with a configuration.
  deletion_policy = "ABANDON"
}
