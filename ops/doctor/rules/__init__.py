"""All rules, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Sequence

from ops.doctor.rule import Rule
from ops.doctor.rules import (
    access,
    capacity,
    database,
    deliveries,
    numbers,
    pubsub,
    stripe,
    times,
    vault,
)

RULES: Sequence[Rule] = (
    *database.RULES,
    *stripe.RULES,
    *vault.RULES,
    *access.RULES,
    *times.RULES,
    *deliveries.RULES,
    *pubsub.RULES,
    *capacity.RULES,
    *numbers.RULES,
)
