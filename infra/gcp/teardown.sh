#!/bin/sh
# Removes a deployment. Events that nobody has acknowledged, and dead letters, go with it. Records of
# charges stay: the database is a deployment of its own, and refuses to be deleted.
#
#   PROJECT=my-project sh infra/gcp/teardown.sh development
. "$(dirname "$0")/common.sh"

what="${1:?Say what: development, production or vault}"
case "$what" in
development | production) folder="$here" variables="-var-file=$what.tfvars" ;;
vault) folder="$here/vault" variables="-var-file=../build.auto.tfvars" ;;
*)
    say "There is no $what: development, production or vault. The database is removed by hand."
    exit 2
    ;;
esac

terraform -chdir="$folder" init -reconfigure \
    -backend-config="bucket=$PROJECT-$NAME-terraform" -backend-config="prefix=$what"
# shellcheck disable=SC2086 # no file, no option
terraform -chdir="$folder" destroy $variables -var="project=$PROJECT" -var="region=$REGION" -var="name=$NAME"
