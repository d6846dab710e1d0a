#!/bin/sh
# Goes back to an earlier revision at once, without a build. Events that are under way are finished
# by whichever revision has them. The next provision.sh goes forward again.
# A revision whose schema is not the database's leaves every event and says so: nothing is lost.
#
#   PROJECT=my-project sh infra/gcp/rollback.sh                                  # what there is
#   PROJECT=my-project sh infra/gcp/rollback.sh bill chargeonce-bill-00007-abc   # or: reconcile, mint, pull
. "$(dirname "$0")/common.sh"

if [ $# -ne 2 ]; then
    gcloud run revisions list --region="$REGION" --project="$PROJECT"
    exit 2
fi
if [ "$1" = pull ]; then
    gcloud beta run worker-pools update-instance-split "$NAME-pull" --to-revisions="$2=100" \
        --region="$REGION" --project="$PROJECT"
else
    gcloud run services update-traffic "$NAME-$1" --to-revisions="$2=100" \
        --region="$REGION" --project="$PROJECT"
fi
