"""Azure's triggers: they translate between Service Bus and the core, and decide nothing."""
