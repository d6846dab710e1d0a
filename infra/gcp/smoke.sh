#!/bin/sh
# Sends one event three times, and asks Stripe how often it was charged. In Stripe's test mode alone.
#
#   PROJECT=my-project STRIPE_TEST_KEY=sk_test_... sh infra/gcp/smoke.sh
. "$(dirname "$0")/common.sh"
. "$root/infra/stripe-test-mode.sh"

chargeonce() { gcloud run jobs execute "$NAME-command" --args="$1" --wait --region="$REGION" --project="$PROJECT"; }

period="smoke-$(date -u +%Y%m%d%H%M%S)"
customer=$(make_customer)
say "Customer $customer, period $period."

chargeonce "run,open,--period,$period,--expected-cents,100"
event="{\"customer_id\": \"smoke\", \"billing_period\": \"$period\", \"stripe_customer_id\": \"$customer\", \"amount_cents\": 100}"
for _ in 1 2 3; do
    gcloud pubsub topics publish "$NAME-events" --message="$event" --project="$PROJECT"
done

await_payments "$customer"
charged=$(payments "$customer")
chargeonce "show,--customer,smoke,--period,$period"
say "Stripe has $charged payment(s) for three deliveries."
[ "$charged" -eq 1 ]
