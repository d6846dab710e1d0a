#!/bin/sh
# Has Terraform plan, shows the plan, asks, and applies it.
#
#   PROJECT=my-project sh infra/gcp/provision.sh database       # first, unless you have a database
#   PROJECT=my-project sh infra/gcp/provision.sh development    # or: production
#   PROJECT=my-project sh infra/gcp/provision.sh vault          # the spend-cap proxy, if you want it
. "$(dirname "$0")/common.sh"

what="${1:?Say what: database, development, production or vault}"
case "$what" in
development | production) folder="$here" variables="-var-file=$what.tfvars" ;;
database) folder="$here/database" variables="" ;;
vault) folder="$here/vault" variables="-var-file=../build.auto.tfvars" ;;
*)
    say "There is no $what: database, development, production or vault."
    exit 2
    ;;
esac

gcloud services enable --project="$PROJECT" \
    artifactregistry.googleapis.com cloudbuild.googleapis.com cloudfunctions.googleapis.com \
    cloudresourcemanager.googleapis.com cloudscheduler.googleapis.com compute.googleapis.com \
    iam.googleapis.com monitoring.googleapis.com pubsub.googleapis.com run.googleapis.com \
    secretmanager.googleapis.com servicenetworking.googleapis.com sqladmin.googleapis.com \
    vpcaccess.googleapis.com
# The account that moves dead letters: in a new project it is not there yet to be granted anything.
gcloud beta services identity create --service=pubsub.googleapis.com --project="$PROJECT"

# Whoever loses Terraform's state has to import everything again, so old versions of it are kept.
bucket="$PROJECT-$NAME-terraform"
if ! gcloud storage buckets describe "gs://$bucket" --project="$PROJECT" >/dev/null 2>&1; then
    gcloud storage buckets create "gs://$bucket" --location="$REGION" \
        --uniform-bucket-level-access --public-access-prevention --project="$PROJECT"
    gcloud storage buckets update "gs://$bucket" --versioning --project="$PROJECT"
fi

terraform -chdir="$folder" init -reconfigure -backend-config="bucket=$bucket" -backend-config="prefix=$what"
# shellcheck disable=SC2086 # no file, no option
terraform -chdir="$folder" apply $variables -var="project=$PROJECT" -var="region=$REGION" -var="name=$NAME"

if [ "$what" = database ]; then
    # How functions and workers reach it: read with the next provisioning.
    network=$(terraform -chdir="$folder" output -json network)
    printf 'network = %s\n' "$network" >"$here/network.auto.tfvars"
fi
