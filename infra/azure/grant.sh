#!/bin/sh
# Lets whoever is signed in read the secrets, send events and look at dead letters: what the
# chargeonce command needs. Takes a few minutes to work.
#
#   RESOURCE_GROUP=chargeonce-dev sh infra/azure/grant.sh
. "$(dirname "$0")/common.sh"

group=$(az group show --name "$RESOURCE_GROUP" --query id --output tsv)
user=$(az ad signed-in-user show --query id --output tsv)
for role in "Key Vault Secrets User" "Azure Service Bus Data Sender" "Azure Service Bus Data Receiver"; do
    az role assignment create --assignee-object-id "$user" --assignee-principal-type User \
        --role "$role" --scope "$group" --output none
done
