# For trying it out in Stripe's test mode: small, and quick to complain.
delivery             = "push"
max_instances        = 2
worker_instances     = 1
oldest_message_hours = 1

# Stripe allows 25 requests a second in test mode: two instances and a timer.
max_requests_per_second = 8

settings = {
  BILLING_EXPECTED_TOTAL_CENTS = "100000"
}
