"""Parameters that the simulator keeps and shows again, and that change nothing else."""

from local.stripe_simulator.parameters import Parameters
from local.stripe_simulator.wire import JsonObject

_TEXTS = (
    "on_behalf_of",
    "receipt_email",
    "setup_future_usage",
    "statement_descriptor",
    "statement_descriptor_suffix",
    "transfer_group",
)
_HASHES = ("shipping", "transfer_data")
_INTEGER = "application_fee_amount"

ECHOED_PARAMETERS = frozenset({*_TEXTS, *_HASHES, _INTEGER})


def read_echoed(parameters: Parameters) -> JsonObject:
    """Return those of the parameters that were given; an empty text becomes None."""
    echoed: JsonObject = {}
    if not parameters.holds_any(ECHOED_PARAMETERS):
        return echoed
    for name in _TEXTS:
        if name in parameters:
            echoed[name] = parameters.text(name) or None
    for name in _HASHES:
        if name in parameters:
            echoed[name] = parameters.any_hash(name)
    if _INTEGER in parameters:
        echoed[_INTEGER] = parameters.integer(_INTEGER)
    return echoed
