"""What the demo publishes: it follows from the seed, and holds what the demo is to show."""

import json
from collections import Counter

import pytest

from local.demo.plan import PERIOD, Cloud, DemoPlan, Kind, event_body, resend, write_script
from shared.errors import InvalidEvent
from shared.event import parse_event
from shared.runs import cap_from_expected

PLAN = DemoPlan(seed=7, customers=300)
SCRIPT = write_script(PLAN)


def test_a_seed_repeats_it() -> None:
    assert write_script(PLAN) == SCRIPT
    assert write_script(DemoPlan(seed=8, customers=300)) != SCRIPT


@pytest.mark.parametrize("customers", [20, 40, 300])
def test_there_is_one_of_each_kind(customers: int) -> None:
    script = write_script(DemoPlan(seed=1, customers=customers))
    assert len(script.customers) == customers
    assert {customer.kind for customer in script.customers} == set(Kind)
    assert len({customer.stripe_customer_id for customer in script.customers}) == customers


def test_valid_and_invalid_events() -> None:
    invalid = 0
    customers = set()
    for message in SCRIPT.messages:
        try:
            event = parse_event(message.body, "usd")
        except InvalidEvent:
            invalid += 1
        else:
            customers.add(event.customer_id)
    assert invalid == SCRIPT.invalid_events == 12
    assert customers == {customer.customer_id for customer in SCRIPT.customers}


def test_a_third_is_sent_more_than_once_with_other_envelopes() -> None:
    copies = Counter(message.body for message in SCRIPT.messages)
    bodies = {event_body(customer) for customer in SCRIPT.customers}
    repeated = [body for body, count in copies.items() if count > 1 and body in bodies]
    assert 0.25 < len(repeated) / 300 < 0.42
    for body in repeated:
        envelopes = [
            json.dumps(dict(message.attributes))
            for message in SCRIPT.messages
            if message.body == body
        ]
        assert len(set(envelopes)) == len(envelopes)


def test_the_cap_leaves_room_for_all_but_the_runaways() -> None:
    cap_cents = cap_from_expected(SCRIPT.expected_cents, 110)
    amounts = dict.fromkeys(Kind, 0)
    for customer in SCRIPT.customers:
        amounts[customer.kind] += customer.amount_cents
    assert sum(amounts.values()) - amounts[Kind.RUNS_AWAY] == SCRIPT.expected_cents < cap_cents
    runaways = [each for each in SCRIPT.customers if each.kind is Kind.RUNS_AWAY]
    assert all(customer.amount_cents > cap_cents for customer in runaways)


def test_either_cloud_has_customers_of_its_own_and_some_have_both() -> None:
    ways = Counter(tuple(customer.clouds) for customer in SCRIPT.customers)
    assert set(ways) == {(Cloud.PUBSUB,), (Cloud.SERVICE_BUS,), tuple(Cloud)}
    assert min(ways.values()) > 40
    clouds = {event_body(customer): customer.clouds for customer in SCRIPT.customers}
    assert all(
        message.clouds == clouds.get(message.body, message.clouds) for message in SCRIPT.messages
    )


@pytest.mark.parametrize("seed", range(1, 21))
def test_somebody_is_charged_slowly_on_service_bus_even_in_a_small_demo(seed: int) -> None:
    slow = write_script(DemoPlan(seed, customers=40)).slow_customers
    assert {(customer.kind, customer.clouds) for customer in slow} == {
        (Kind.PAYS, (Cloud.SERVICE_BUS,))
    }


def test_what_is_sent_again_is_the_same_event_through_another_cloud() -> None:
    again = resend(PLAN, SCRIPT.customers, 40)
    assert len(again) == 40
    came = {event_body(customer): set(customer.clouds) for customer in SCRIPT.customers}
    assert all(came[message.body] in ({*Cloud}, {*Cloud} - {*message.clouds}) for message in again)
    first = {message.body for message in SCRIPT.messages}
    assert all(message.body in first for message in again)
    assert all(json.loads(message.body)["billing_period"] == PERIOD for message in again)
