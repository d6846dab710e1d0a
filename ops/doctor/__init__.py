"""`chargeonce doctor`: the running configuration, and the templates, against the rules."""
