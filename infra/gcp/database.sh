#!/bin/sh
# Makes the user of the database that `provision.sh database` made, with a password that nobody
# knows, and keeps its address as the secret NAME-database-url.
#
#   PROJECT=my-project sh infra/gcp/database.sh
. "$(dirname "$0")/common.sh"

password=$(openssl rand -hex 24)
gcloud sql users create chargeonce --instance="$NAME" --password="$password" --project="$PROJECT"
address=$(gcloud sql instances describe "$NAME" --format='value(ipAddresses[0].ipAddress)' --project="$PROJECT")
printf 'postgresql://chargeonce:%s@%s/chargeonce?sslmode=require' "$password" "$address" |
    sh "$here/secrets.sh" database-url
