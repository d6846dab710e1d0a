#!/bin/sh
# Publishes an earlier commit. Events that are under way are finished by whichever version has them.
# A version that does not know the database's schema leaves every event and says so: nothing is lost.
#
#   RESOURCE_GROUP=chargeonce-dev sh infra/azure/rollback.sh v0.1.0
. "$(dirname "$0")/common.sh"

commit="${1:?Say which commit or tag}"
earlier=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$earlier"' EXIT
git -C "$root" worktree add --detach "$earlier" "$commit"
cd "$earlier"
func azure functionapp publish "$(output AZURE_FUNCTION_APP)" --build remote
