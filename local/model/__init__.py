"""The protocol as small machines whose every state is visited.

`two_step` is the charge through a PaymentIntent, `one_step` the older Charges API with a clock,
`spend` the cap of a run in the ledger and at the proxy. `checks` says what is searched.
"""
