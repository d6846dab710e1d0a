# Where Terraform keeps its state: the bucket and the prefix are given by provision.sh.
terraform {
  backend "gcs" {}
}
