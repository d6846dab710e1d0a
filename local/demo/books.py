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
    seconds: float
    promises_broken: Sequence[str]
    log_directory: Path | None

    def document(self) -> dict[str, object]:
        """What `--json` prints."""
        directory = self.log_directory
        return {**asdict(self), "log_directory": str(directory) if directory else None}
