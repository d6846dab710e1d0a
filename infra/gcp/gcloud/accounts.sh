#!/bin/sh
# First: the accounts, and who may read which secret. The secrets exist (secrets.sh).
#
#   PROJECT=my-project sh infra/gcp/gcloud/accounts.sh
. "$(dirname "$0")/common.sh"

gcloud services enable --project="$PROJECT" \
    artifactregistry.googleapis.com cloudbuild.googleapis.com cloudfunctions.googleapis.com \
    cloudscheduler.googleapis.com iam.googleapis.com pubsub.googleapis.com run.googleapis.com
# The account that moves dead letters: in a new project it is not there yet to be granted anything.
gcloud beta services identity create --service=pubsub.googleapis.com --project="$PROJECT"

for account in biller timers pusher scheduler; do
    gcloud iam service-accounts create "$NAME-$account" --project="$PROJECT"
done
for account in "$biller" "$timers"; do
    for secret in database-url stripe-api-key; do
        gcloud secrets add-iam-policy-binding "$NAME-$secret" --member="serviceAccount:$account" \
            --role=roles/secretmanager.secretAccessor --project="$PROJECT"
    done
done
