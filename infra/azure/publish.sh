#!/bin/sh
# Publishes the code that lies here to the function app, and to the spend-cap proxy where there is one.
# Azure installs requirements.txt itself; .funcignore says what is not sent.
#
#   RESOURCE_GROUP=chargeonce-dev sh infra/azure/publish.sh
. "$(dirname "$0")/common.sh"

cd "$root"
for name in AZURE_FUNCTION_APP AZURE_VAULT_PROXY_APP AZURE_VAULT_ADMIN_APP; do
    app=$(output "$name")
    if [ -n "$app" ]; then
        func azure functionapp publish "$app" --build remote
    fi
done
