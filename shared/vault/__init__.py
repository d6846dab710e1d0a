"""A spend-cap proxy: Stripe's API behind keys that can spend so much and no more."""
