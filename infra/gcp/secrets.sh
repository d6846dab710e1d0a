#!/bin/sh
# Adds a version of a secret, from standard input, and says its number: put that into
# secret_versions. The value is on no command line, in no file and not in Terraform's state.
#
#   PROJECT=my-project sh infra/gcp/secrets.sh stripe-api-key < key.txt
. "$(dirname "$0")/common.sh"

secret="$NAME-${1:?Say which secret: database-url, stripe-api-key or another of secret_versions}"
gcloud services enable secretmanager.googleapis.com --project="$PROJECT"
gcloud secrets describe "$secret" --project="$PROJECT" >/dev/null 2>&1 ||
    gcloud secrets create "$secret" --replication-policy=user-managed \
        --locations="$REGION" --project="$PROJECT"
if [ -t 0 ]; then
    say "Type or paste the value, then Enter and Ctrl-D."
fi
# A line feed at its end would be part of the secret.
version=$(tr -d '\n' | gcloud secrets versions add "$secret" --data-file=- \
    --format='value(name.basename())' --project="$PROJECT")
say "$secret has version $version."
