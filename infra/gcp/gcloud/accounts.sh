#!/bin/sh
# First: the accounts, and who may read which secret. The secrets exist (secrets.sh).
#
#   PROJECT=my-project sh infra/gcp/gcloud/accounts.sh
. "$(dirname "$0")/common.sh"

for account in biller timers pusher scheduler; do
    gcloud iam service-accounts create "$NAME-$account" --project="$PROJECT"
done
for account in "$biller" "$timers"; do
    for secret in database-url stripe-api-key; do
        gcloud secrets add-iam-policy-binding "$NAME-$secret" --member="serviceAccount:$account" \
            --role=roles/secretmanager.secretAccessor --project="$PROJECT"
    done
done
