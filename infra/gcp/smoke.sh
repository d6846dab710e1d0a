#!/bin/sh
# Sends one event three times, and asks Stripe how often it was charged. In Stripe's test mode alone.
#
#   PROJECT=my-project STRIPE_TEST_KEY=sk_test_... sh infra/gcp/smoke.sh
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
chargeonce() { gcloud run jobs execute "$NAME-command" --args="$1" --wait --region="$REGION" --project="$PROJECT"; }

period="smoke-$(date -u +%Y%m%d%H%M%S)"
customer=$(stripe https://api.stripe.com/v1/customers \
    --data payment_method=pm_card_visa \
    --data 'invoice_settings[default_payment_method]=pm_card_visa' |
    sed -n 's/^ *"id": "\(cus_[A-Za-z0-9]*\)".*/\1/p' | head -n 1)
say "Customer $customer, period $period."

chargeonce "run,open,--period,$period,--expected-cents,100"
event="{\"customer_id\": \"smoke\", \"billing_period\": \"$period\", \"stripe_customer_id\": \"$customer\", \"amount_cents\": 100}"
for _ in 1 2 3; do
    gcloud pubsub topics publish "$NAME-events" --message="$event" --project="$PROJECT"
done

payments() {
    stripe --get https://api.stripe.com/v1/payment_intents --data "customer=$customer" |
        grep -c '"status": "succeeded"' || true
}

tries=0
until [ "$(payments)" -ge 1 ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 30 ]; then
        say "Nothing was charged within five minutes. Look at the log: see docs/deploy-gcp.md."
        exit 1
    fi
    sleep 10
done

# Time for the other two deliveries to do harm, if they could.
sleep 60
charged=$(payments)
chargeonce "show,--customer,smoke,--period,$period"
say "Stripe has $charged payment(s) for three deliveries."
[ "$charged" -eq 1 ]
