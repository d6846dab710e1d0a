"""A cloud on the desk: emulators, the Stripe simulator and the demo."""
