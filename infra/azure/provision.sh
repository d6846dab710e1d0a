#!/bin/sh
# Makes or changes everything but the code. Secrets come from the environment (see the .bicepparam
# files) and are needed the first time; later an unset one leaves what is in the vault.
#
#   RESOURCE_GROUP=chargeonce-dev STRIPE_API_KEY=rk_test_... sh infra/azure/provision.sh development
. "$(dirname "$0")/common.sh"

what="${1:?Say what: development or production}"
parameters="$here/$what.bicepparam"
if [ ! -f "$parameters" ]; then
    say "There is no $what: development or production."
    exit 2
fi

az group create --name "$RESOURCE_GROUP" --location "$LOCATION" --output none
az deployment group create --resource-group "$RESOURCE_GROUP" --name "$deployment" \
    --parameters "$parameters" --confirm-with-what-if --output none
say "Function app: $(output AZURE_FUNCTION_APP)"
