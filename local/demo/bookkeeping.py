"""What is known when the demo is over, and the books that are written from it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from local.demo.books import Books, CloudBooks, VaultBooks
from local.demo.broker import LeasesSeen
from local.demo.judge import Evidence, judge
from local.demo.observer import DeliveriesSeen, ParkedSeen
from local.demo.plan import PERIOD, Cloud
from local.demo.stage import Stage
from shared.record import FINAL, State

DEAD_LETTER_SECONDS: Final = 20.0


def gather_evidence(stage: Stage) -> Evidence:
    """Look at everything that is known when the demo is over."""
    stage.settled_share("judging by Stripe's ledger")
    parked = stage.observer.parked_events()
    run = stage.store.get_run(PERIOD)
    assert run is not None
    return Evidence(
        customers=stage.script.customers,
        invalid_events=stage.script.invalid_events,
        unsettled_messages=stage.unsettled_count(),
        records=stage.observer.records(),
        parked=parked,
        dead_letters=_dead_letters(stage, parked),
        ledger=stage.stripe.ledger(),
        cap_cents=run.cap_cents,
        held_cents=run.held_cents,
        charged_cents=run.charged_cents,
        most_committed_cents=stage.most_committed_cents,
    )


def _dead_letters(stage: Stage, parked: Sequence[ParkedSeen]) -> frozenset[str]:
    """Wait for the dead letters of both clouds, as many as were parked; return their ids."""
    on_service_bus = {
        event.message_id
        for event in parked
        if event.transport in stage.transports[Cloud.SERVICE_BUS]
    }
    on_pubsub = {event.message_id for event in parked} - on_service_bus
    return stage.broker.dead_letters(
        len(on_pubsub), DEAD_LETTER_SECONDS
    ) | stage.queue.dead_letters(len(on_service_bus), DEAD_LETTER_SECONDS)


def write_books(stage: Stage, evidence: Evidence, vault: VaultBooks, seconds: float) -> Books:
    """Judge, and count.

    Args:
        stage: Where it was played.
        evidence: What is judged.
        vault: What was done with vault keys.
        seconds: How long it took.
    """
    judgement = judge(evidence)
    states = Counter(record.state for record in evidence.records.values())
    doubted = [record for record in evidence.records.values() if record.doubts > 0]
    refused = evidence.refused_customers
    settled = {
        customer_id
        for customer_id, record in evidence.records.items()
        if record.state in (State.CHARGED, State.DECLINED)
    }
    clouds = _write_cloud_books(stage, evidence)
    return Books(
        seed=stage.plan.seed,
        delivery=stage.broker.name,
        customers=len(evidence.customers),
        customers_on_both_clouds=sum(len(each.clouds) > 1 for each in evidence.customers),
        events_published=sum(each.published for each in clouds.values()),
        invalid_events=evidence.invalid_events,
        deliveries=sum(each.deliveries for each in clouds.values()),
        charged=states[State.CHARGED],
        declined=states[State.DECLINED],
        parked=len(refused - settled),
        duplicates_prevented=sum(each.duplicates_prevented for each in clouds.values()),
        in_doubt_resolved=sum(record.state in FINAL for record in doubted),
        double_charges=judgement.double_charges,
        lost_events=judgement.lost_events,
        charged_cents=evidence.moved_cents,
        cap_cents=evidence.cap_cents,
        killed_processes=sum(each.killed_processes for each in clouds.values()),
        charges_cut_short=stage.observer.cut_short_count(),
        function_app=stage.consumers.function_app is not None,
        clouds=clouds,
        vault=vault,
        seconds=round(seconds, 1),
        promises_broken=[*judgement.promises_broken, *vault.promises_broken],
        log_directory=None,
    )


def _write_cloud_books(stage: Stage, evidence: Evidence) -> Mapping[Cloud, CloudBooks]:
    leases = {
        Cloud.PUBSUB: stage.broker.leases(),
        Cloud.SERVICE_BUS: LeasesSeen(stage.queue.refused_renewals(), stage.consumers.lost_locks()),
    }
    deliveries = stage.observer.deliveries()
    books = {}
    for cloud, transports in stage.transports.items():
        seen = sum(
            (deliveries.get(each, DeliveriesSeen()) for each in transports), DeliveriesSeen()
        )
        lease = leases[cloud]
        dead = {event.message_id for event in evidence.parked if event.transport in transports}
        books[cloud] = CloudBooks(
            published=stage.messages[cloud],
            deliveries=seen.decided,
            redeliveries=seen.again,
            met_another_holder=seen.met_another,
            duplicates_prevented=seen.duplicates,
            leases_not_extended=lease.not_extended if lease else None,
            leases_run_out=lease.ran_out if lease else None,
            dead_letters=len(dead),
            killed_processes=stage.killed_processes[cloud],
        )
    return books
