# Read by the smoke tests of both clouds: a customer in Stripe's test mode, and how often it was charged.
# STRIPE_TEST_KEY is required; say() comes from common.sh.

case "${STRIPE_TEST_KEY:?Set STRIPE_TEST_KEY to a key of the test mode that may write customers}" in
rk_test_* | sk_test_*) ;;
*)
    say "STRIPE_TEST_KEY is not a key of the test mode."
    exit 2
    ;;
esac

# The key is on no command line, where every user of the machine could read it.
stripe() { printf 'user = "%s:"\n' "$STRIPE_TEST_KEY" | curl --silent --show-error --fail --config - "$@"; }

# A new customer with a card that can be charged; prints its id.
make_customer() {
    stripe https://api.stripe.com/v1/customers \
        --data payment_method=pm_card_visa \
        --data 'invoice_settings[default_payment_method]=pm_card_visa' |
        sed -n 's/^ *"id": "\(cus_[A-Za-z0-9]*\)".*/\1/p' | head -n 1
}

# How many payments of the customer succeeded.
payments() {
    stripe --get https://api.stripe.com/v1/payment_intents --data "customer=$1" |
        grep -c '"status": "succeeded"' || true
}

# Waits for the customer's first payment, then a minute more for others that must not come.
await_payments() {
    tries=0
    until [ "$(payments "$1")" -ge 1 ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 30 ]; then
            say "Nothing was charged within five minutes. Look at the log."
            return 1
        fi
        sleep 10
    done
    sleep 60
}
