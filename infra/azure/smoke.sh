#!/bin/sh
# Sends one event three times, and asks Stripe how often it was charged. In Stripe's test mode alone.
#
#   RESOURCE_GROUP=chargeonce-dev STRIPE_TEST_KEY=sk_test_... sh infra/azure/smoke.sh
. "$(dirname "$0")/common.sh"

case "${STRIPE_TEST_KEY:?Set STRIPE_TEST_KEY to a key of the test mode that may write customers}" in
rk_test_* | sk_test_*) ;;
*)
    say "STRIPE_TEST_KEY is not a key of the test mode."
    exit 2
    ;;
esac

# The key is on no command line, where every user of the machine could read it.
stripe() { printf 'user = "%s:"\n' "$STRIPE_TEST_KEY" | curl --silent --show-error --fail --config - "$@"; }
chargeonce() { (cd "$root" && .venv/bin/python -m ops "$@"); }

DATABASE_URL=$(az keyvault secret show --vault-name "$(output AZURE_KEY_VAULT)" --name database-url \
    --query value --output tsv)
export DATABASE_URL
ServiceBus__fullyQualifiedNamespace=$(output SERVICE_BUS_NAMESPACE)
export ServiceBus__fullyQualifiedNamespace

period="smoke-$(date -u +%Y%m%d%H%M%S)"
customer=$(stripe https://api.stripe.com/v1/customers \
    --data payment_method=pm_card_visa \
    --data 'invoice_settings[default_payment_method]=pm_card_visa' |
    sed -n 's/^ *"id": "\(cus_[A-Za-z0-9]*\)".*/\1/p' | head -n 1)
say "Customer $customer, period $period."

chargeonce run open --period "$period" --expected-cents 100
for _ in 1 2 3; do
    chargeonce publish --customer smoke --period "$period" --stripe-customer "$customer" \
        --amount-cents 100 "--$(output BILLING_ENTITY_KIND)" "$(output BILLING_ENTITY)"
done

payments() {
    stripe --get https://api.stripe.com/v1/payment_intents --data "customer=$customer" |
        grep -c '"status": "succeeded"' || true
}

tries=0
until [ "$(payments)" -ge 1 ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 30 ]; then
        say "Nothing was charged within five minutes. Look at the log: see docs/deploy-azure.md."
        exit 1
    fi
    sleep 10
done

# Time for the other two deliveries to do harm, if they could.
sleep 60
charged=$(payments)
chargeonce show --customer smoke --period "$period"
say "Stripe has $charged payment(s) for three deliveries."
[ "$charged" -eq 1 ]
