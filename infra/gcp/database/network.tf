# The database has no address in the internet; functions and workers reach it through this network.

resource "google_compute_network" "this" {
  name                    = var.name
  auto_create_subnetworks = false
}

# Nobody calls into it: whatever uses it only calls out.
resource "google_compute_firewall" "nothing_comes_in" {
  name          = "${var.name}-nothing-comes-in"
  network       = google_compute_network.this.id
  direction     = "INGRESS"
  source_ranges = ["0.0.0.0/0"]

  deny {
    protocol = "all"
  }

  log_config {
    metadata = "INCLUDE_ALL_METADATA"
  }
}

# Workers and the command line.
resource "google_compute_subnetwork" "run" {
  name                     = "${var.name}-run"
  network                  = google_compute_network.this.id
  ip_cidr_range            = "10.20.0.0/24"
  private_ip_google_access = true

  log_config {
    aggregation_interval = "INTERVAL_10_MIN"
    flow_sampling        = 0.1
  }
}

# Functions, which reach a network through a connector alone.
resource "google_compute_subnetwork" "connector" {
  name                     = "${var.name}-connector"
  network                  = google_compute_network.this.id
  ip_cidr_range            = "10.20.1.0/28"
  private_ip_google_access = true

  log_config {
    aggregation_interval = "INTERVAL_10_MIN"
    flow_sampling        = 0.1
  }
}

resource "google_vpc_access_connector" "functions" {
  name          = var.name
  region        = var.region
  machine_type  = "e2-micro"
  min_instances = 2
  max_instances = 3

  subnet {
    name = google_compute_subnetwork.connector.name
  }
}

# Google's side of the network, in which the database lies.
resource "google_compute_global_address" "google" {
  name          = "${var.name}-google"
  network       = google_compute_network.this.id
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 20
}

resource "google_service_networking_connection" "google" {
  network                 = google_compute_network.this.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.google.name]
}
