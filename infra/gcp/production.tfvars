# What differs from the defaults. Say also who is told (notification_channels).
delivery             = "push"
max_instances        = 5
worker_instances     = 2
oldest_message_hours = 6

# Stripe allows about 100 requests a second in live mode: five instances, a timer, and some to spare.
max_requests_per_second = 15

# The mint timer needs to know what each period should come to: a number of cents, or a query.
settings = {
  BILLING_EXPECTED_TOTAL_SQL = "SELECT sum(amount_cents) FROM usage_totals WHERE billing_period = $1"
}
