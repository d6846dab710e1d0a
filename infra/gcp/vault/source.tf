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
}

# A new name for new content, so that the functions are deployed anew when it changes.
resource "google_storage_bucket_object" "source" {
  name   = "functions-${filesha256(var.source_archive)}.zip"
  bucket = google_storage_bucket.source.name
  source = var.source_archive
}

resource "google_service_account" "builder" {
  account_id   = "${var.name}-builder"
  display_name = "Builds the spend-cap proxy"
}

# What a build needs, and no more: https://cloud.google.com/functions/docs/building#build-service-account
resource "google_project_iam_member" "builder_builds" {
  for_each = toset([
    "roles/artifactregistry.writer",
    "roles/logging.logWriter",
    "roles/storage.objectViewer",
  ])

  project = var.project
  role    = each.value
  member  = google_service_account.builder.member
}
