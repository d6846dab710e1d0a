#!/bin/sh
# Makes what is deployed out of the last commit: an archive for the functions, and an image for the
# pull worker and the command line. Their names go to build.auto.tfvars, which Terraform reads.
#
#   PROJECT=my-project sh infra/gcp/build.sh
. "$(dirname "$0")/common.sh"

commit=$(git -C "$root" rev-parse --short=12 HEAD)
if ! git -C "$root" diff --quiet HEAD; then
    say "There are changes that are not committed; they are not deployed."
fi

# The same as .gcloudignore lets through.
mkdir -p "$root/build"
archive="$root/build/functions-$commit.zip"
git -C "$root" archive --format=zip --output="$archive" HEAD main.py requirements.txt gcp_function shared

repository="$REGION-docker.pkg.dev/$PROJECT/$NAME"
image="$repository/chargeonce:$commit"
gcloud services enable artifactregistry.googleapis.com cloudbuild.googleapis.com --project="$PROJECT"
gcloud artifacts repositories describe "$NAME" --location="$REGION" --project="$PROJECT" >/dev/null 2>&1 ||
    gcloud artifacts repositories create "$NAME" --repository-format=docker \
        --location="$REGION" --project="$PROJECT"
gcloud builds submit "$root" --config="$here/image.yaml" --ignore-file=infra/gcp/image.gcloudignore \
    --substitutions="_IMAGE=$image" --region="$REGION" --project="$PROJECT"
digest=$(gcloud artifacts docker images describe "$image" \
    --format='value(image_summary.digest)' --project="$PROJECT")

cat >"$here/build.auto.tfvars" <<END
source_archive = "$archive"
image          = "$repository/chargeonce@$digest"
END
say "Built $commit. Next: provision.sh"
