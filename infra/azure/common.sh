# Read by the other scripts: what they all need.
# RESOURCE_GROUP is required. LOCATION is only asked for when the group is made.
set -eu

: "${RESOURCE_GROUP:?Set RESOURCE_GROUP to the name of the resource group}"
LOCATION="${LOCATION:-northeurope}"
deployment=chargeonce

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
here="$root/infra/azure"

say() { printf '%s\n' "$*" >&2; }

# An output of main.bicep: from the environment, where azd keeps them, or as provision.sh left it.
output() {
    eval "known=\${$1:-}"
    if [ -n "$known" ]; then
        printf '%s\n' "$known"
    else
        az deployment group show --resource-group "$RESOURCE_GROUP" --name "$deployment" \
            --query "properties.outputs.$1.value" --output tsv
    fi
}
