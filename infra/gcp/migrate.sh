#!/bin/sh
# Brings the database's schema up to date. Run it right after provision.sh: until then new consumers
# leave their events, which come again.
#
#   PROJECT=my-project sh infra/gcp/migrate.sh
. "$(dirname "$0")/common.sh"

gcloud run jobs execute "$NAME-command" --args=migrate --wait --region="$REGION" --project="$PROJECT"
