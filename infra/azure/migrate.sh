#!/bin/sh
# Brings the database's schema up to date, before the code that needs it is published. Run it where the
# database can be reached: in production that is inside its network.
#
#   RESOURCE_GROUP=chargeonce-dev sh infra/azure/migrate.sh
. "$(dirname "$0")/common.sh"

DATABASE_URL=$(az keyvault secret show --vault-name "$(output AZURE_KEY_VAULT)" --name database-url \
    --query value --output tsv)
export DATABASE_URL
cd "$root"
.venv/bin/python -m ops migrate
