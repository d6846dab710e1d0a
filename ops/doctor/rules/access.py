"""Who may call what, and where secrets are."""

from __future__ import annotations

from collections.abc import Iterator

from ops.doctor.facts import Facts
from ops.doctor.rule import error


@error(
    "Whoever finds its address can charge customers, or start the timers.",
    "Let only the push account and the scheduler's account invoke it.",
)
def function_open_to_everybody(facts: Facts) -> Iterator[str]:
    """No function that bills is public."""
    for name in facts.open_functions:
        yield f"{name} may be called by everybody"
    if facts.settings is not None:
        for caller in (facts.settings.pubsub.push, facts.settings.scheduler):
            if caller.auth == "none":
                yield f"{caller.prefix}_AUTH is none"


@error(
    "Whoever may read the template, or look at the function, has the secret.",
    "Put it into Key Vault or Secret Manager, and name it there.",
)
def secret_in_template(facts: Facts) -> Iterator[str]:
    """Secrets are referred to, never written."""
    for name in facts.plain_secrets:
        yield f"{name} is written in plain text"


RULES = (function_open_to_everybody, secret_in_template)
