"""Google Cloud's triggers: they translate between Pub/Sub and the core, and decide nothing."""
