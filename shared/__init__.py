"""The billing core: every decision that Chargeonce makes, and no cloud SDK."""
