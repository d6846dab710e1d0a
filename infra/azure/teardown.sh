#!/bin/sh
# Removes the whole resource group: the queue with what waits in it, the dead letters, and the database
# that knows who was charged. In production the database has a lock, and Azure refuses until somebody
# removes it by hand. Secrets stay recoverable for 90 days.
#
#   RESOURCE_GROUP=chargeonce-dev sh infra/azure/teardown.sh
. "$(dirname "$0")/common.sh"

az group delete --name "$RESOURCE_GROUP"
