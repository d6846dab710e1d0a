# Read by the other scripts: what they all need.
# PROJECT is required. REGION and NAME have the defaults of variables.tf.
set -eu

: "${PROJECT:?Set PROJECT to the id of your Google Cloud project}"
REGION="${REGION:-europe-west1}"
NAME="${NAME:-chargeonce}"

root=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
here="$root/infra/gcp"

say() { printf '%s\n' "$*" >&2; }
