"""The audit: Stripe's own lists against our records."""
