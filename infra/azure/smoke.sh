#!/bin/sh
# Sends one event three times, and asks Stripe how often it was charged. In Stripe's test mode alone.
#
#   RESOURCE_GROUP=chargeonce-dev STRIPE_TEST_KEY=sk_test_... sh infra/azure/smoke.sh
. "$(dirname "$0")/common.sh"
. "$root/infra/stripe-test-mode.sh"

chargeonce() { (cd "$root" && .venv/bin/python -m ops "$@"); }

DATABASE_URL=$(az keyvault secret show --vault-name "$(output AZURE_KEY_VAULT)" --name database-url \
    --query value --output tsv)
export DATABASE_URL
ServiceBus__fullyQualifiedNamespace=$(output SERVICE_BUS_NAMESPACE)
export ServiceBus__fullyQualifiedNamespace

period="smoke-$(date -u +%Y%m%d%H%M%S)"
customer=$(make_customer)
say "Customer $customer, period $period."

chargeonce run open --period "$period" --expected-cents 100
for _ in 1 2 3; do
    chargeonce publish --customer smoke --period "$period" --stripe-customer "$customer" \
        --amount-cents 100 "--$(output BILLING_ENTITY_KIND)" "$(output BILLING_ENTITY)"
done

await_payments "$customer"
charged=$(payments "$customer")
chargeonce show --customer smoke --period "$period"
say "Stripe has $charged payment(s) for three deliveries."
[ "$charged" -eq 1 ]
