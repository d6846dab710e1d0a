"""The result of a demo."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from local.demo.plan import Cloud


@dataclass(frozen=True, slots=True)
class CloudBooks:
    """What happened on one cloud.

    Attributes:
        published: Messages.
        deliveries: How often a message reached a decision.
        redeliveries: Those that the broker had made before.
        met_another_holder: Those that found the charge in somebody else's hands.
        duplicates_prevented: Those that found their record finished.
        leases_not_extended: Extensions of leases (Service Bus: of locks) that were refused or
            lost; None where nobody counts them.
        leases_run_out: Before somebody was done with the message; None where nobody counts.
        dead_letters: Messages that can never be charged, or not as things are.
        killed_processes: Killed while they were charging.
    """

    published: int
    deliveries: int
    redeliveries: int
    met_another_holder: int
    duplicates_prevented: int
    leases_not_extended: int | None
    leases_run_out: int | None
    dead_letters: int
    killed_processes: int


@dataclass(frozen=True, slots=True)
class VaultBooks:
    """What a program could do with a vault key.

    Attributes:
        cap_cents: What its first key allowed.
        asked_cents: What it asked for with it.
        charged_cents: What really moved, by the simulator's ledger.
        largest_cents: The largest amount that it asked for at once.
        refused_by_cap: How many charges the cap refused.
        charges_before_revocation: With the second key, begun before it was revoked.
        charges_after_revocation: Begun after.
        refused_after_revocation: How many charges were refused because the key was revoked.
    """

    cap_cents: int
    asked_cents: int
    charged_cents: int
    largest_cents: int
    refused_by_cap: int
    charges_before_revocation: int
    charges_after_revocation: int
    refused_after_revocation: int

    @property
    def promises_broken(self) -> list[str]:
        """One sentence each."""
        broken = []
        if self.charged_cents > self.cap_cents:
            broken.append(f"{self.charged_cents} cents passed a key that allowed {self.cap_cents}")
        elif self.cap_cents - self.charged_cents >= self.largest_cents:
            broken.append("the proxy refused charges that its key's cap allowed")
        if self.charges_after_revocation:
            broken.append(f"{self.charges_after_revocation} charges passed a revoked key")
        if not (self.refused_by_cap and self.refused_after_revocation):
            broken.append("the program with the vault key was never refused")
        return broken


@dataclass(frozen=True, slots=True)
class Books:
    """What the demo came to, in numbers.

    Attributes:
        seed: Repeats it.
        delivery: What delivered the events on Google's side.
        customers: Those with a valid event.
        customers_on_both_clouds: Those whose event came through both clouds at once.
        events_published: Messages, with the repeated and the invalid ones.
        invalid_events: Those that can never become a charge; dead-lettered.
        deliveries: How often a message reached a decision.
        charged: Customers who were charged.
        declined: Customers whose card, or lack of one, stood in the way.
        parked: Customers whose message was dead-lettered with a reason: unknown to Stripe, or
            beyond the cap.
        duplicates_prevented: Deliveries that found their record finished.
        in_doubt_resolved: Records of which it was unknown for a while whether money had moved.
        double_charges: By the simulator's ledger.
        lost_events: Published events that came to no end.
        charged_cents: What really moved, by the simulator's ledger.
        cap_cents: The most that was allowed to.
        killed_processes: Killed while they were charging, and started again.
        charges_cut_short: Begun by a process that was killed, finished by another.
        function_app: Whether the function app ran beside the consumer on Service Bus.
        clouds: The same by cloud.
        vault: What a program could do with a vault key; its money is counted there alone.
        seconds: How long it took.
        promises_broken: One sentence each.
        log_directory: Where the processes' logs were kept; None when they were not needed.
    """

    seed: int
    delivery: str
    customers: int
    customers_on_both_clouds: int
    events_published: int
    invalid_events: int
    deliveries: int
    charged: int
    declined: int
    parked: int
    duplicates_prevented: int
    in_doubt_resolved: int
    double_charges: int
    lost_events: int
    charged_cents: int
    cap_cents: int
    killed_processes: int
    charges_cut_short: int
    function_app: bool
    clouds: Mapping[Cloud, CloudBooks]
    vault: VaultBooks
    seconds: float
    promises_broken: Sequence[str]
    log_directory: Path | None

    def document(self) -> dict[str, object]:
        """What `--json` prints."""
        directory = self.log_directory
        return {**asdict(self), "log_directory": str(directory) if directory else None}
