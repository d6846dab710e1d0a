"""The numbers that hang together, once. docs/numbers.md is written from this table
(`make reference`), and `chargeonce doctor --offline` holds every place against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# A delivery looks at a customer, creates and confirms; each may take a whole attempt.
STRIPE_CALLS_WITHIN_A_DELIVERY = 3
LONGEST_OUTAGE_HOURS = 8.0
MOST_CLOCK_SKEW_SECONDS = 60.0
# Live mode and test mode, for a whole account: https://docs.stripe.com/rate-limits
STRIPE_REQUESTS_PER_SECOND: Mapping[bool, int] = {True: 100, False: 25}
# What Azure's PostgreSQL allows by itself, by machine:
# https://learn.microsoft.com/azure/postgresql/configure-maintain/concepts-limits
AZURE_CONNECTIONS: Mapping[str, int] = {"Standard_B2s": 429, "Standard_D2ds_v5": 859}

SETTINGS = "settings"
HOST_JSON = "host.json"
BICEP = "infra/azure/main.bicep"
TERRAFORM = "infra/gcp/variables.tf"
GCLOUD = "infra/gcp/gcloud/common.sh"
TERRAFORM_DATABASE = "infra/gcp/database/variables.tf"


@dataclass(frozen=True, slots=True)
class Number:
    """A number, and everywhere that it is written.

    Args:
        name: for people, unit last.
        because: what it has to be more or less than.
        places: file, name in it, and value there: Azure and Google Cloud may differ.
    """

    name: str
    because: str
    places: Sequence[tuple[str, str, float]]


NUMBERS: Sequence[Number] = (
    Number(
        "connecting to Stripe, s",
        "with the answer: one attempt, 35 s",
        (
            (SETTINGS, "STRIPE_CONNECT_TIMEOUT_SECONDS", 5),
            (BICEP, "stripeConnectTimeoutSeconds", 5),
            (TERRAFORM, "stripe_connect_timeout_seconds", 5),
            (GCLOUD, "STRIPE_CONNECT_TIMEOUT_SECONDS", 5),
        ),
    ),
    Number(
        "Stripe's answer, s",
        "as above",
        (
            (SETTINGS, "STRIPE_READ_TIMEOUT_SECONDS", 30),
            (BICEP, "stripeReadTimeoutSeconds", 30),
            (TERRAFORM, "stripe_read_timeout_seconds", 30),
            (GCLOUD, "STRIPE_READ_TIMEOUT_SECONDS", 30),
        ),
    ),
    Number(
        "budget of a delivery, s",
        "room for three attempts",
        (
            (SETTINGS, "CHARGE_BUDGET_SECONDS", 120),
            (BICEP, "chargeBudgetSeconds", 120),
            (TERRAFORM, "charge_budget_seconds", 120),
            (GCLOUD, "CHARGE_BUDGET_SECONDS", 120),
        ),
    ),
    Number(
        "lease of a record, s",
        "more than budget + one attempt (155)",
        (
            (SETTINGS, "CLAIM_LEASE_SECONDS", 180),
            (BICEP, "claimLeaseSeconds", 180),
            (TERRAFORM, "claim_lease_seconds", 180),
            (GCLOUD, "CLAIM_LEASE_SECONDS", 180),
        ),
    ),
    Number(
        "lock of a message, s",
        "more than the lease; Service Bus allows no more",
        ((BICEP, "lockDuration", 300), (HOST_JSON, "maxAutoLockRenewalDuration", 300)),
    ),
    Number(
        "function timeout, s",
        "more than budget + one attempt; on Google Cloud less than the ack deadline",
        (
            (HOST_JSON, "functionTimeout", 600),
            (TERRAFORM, "function_timeout_seconds", 300),
            (GCLOUD, "function_timeout_seconds", 300),
        ),
    ),
    Number(
        "ack deadline, s",
        "more than the function's timeout; Pub/Sub allows no more",
        ((TERRAFORM, "ack_deadline_seconds", 600), (GCLOUD, "ack_deadline_seconds", 600)),
    ),
    Number(
        "shortest back-off, s",
        "an event that must wait does not come back at once",
        ((TERRAFORM, "minimum_backoff_seconds", 10), (GCLOUD, "minimum_backoff_seconds", 10)),
    ),
    Number(
        "longest back-off, s",
        "times the deliveries it outlasts a night; Pub/Sub allows no more",
        ((TERRAFORM, "maximum_backoff_seconds", 600), (GCLOUD, "maximum_backoff_seconds", 600)),
    ),
    Number(
        "deliveries",
        "outlast 8 hours without a database; BILLING_MAX_DELIVERIES is the same number",
        (
            (BICEP, "maxDeliveryCount", 100),
            (TERRAFORM, "max_delivery_attempts", 100),
            (GCLOUD, "max_delivery_attempts", 100),
        ),
    ),
    Number(
        "concurrency = threads = pool of an instance",
        "a message that waits for a thread or a connection loses its lock",
        (
            (SETTINGS, "WORKER_CONCURRENCY", 8),
            (HOST_JSON, "maxConcurrentCalls", 8),
            (BICEP, "workerThreads", 8),
            (TERRAFORM, "concurrency", 8),
            (GCLOUD, "concurrency", 8),
        ),
    ),
    Number(
        "instances at most",
        "times the pool less than the database's connections; times the requests of one instance "
        "no more than Stripe's limit (100 live, 25 test)",
        (
            (BICEP, "maximumInstanceCount", 40),
            (TERRAFORM, "max_instances", 5),
            (GCLOUD, "max_instances", 5),
        ),
    ),
    Number(
        "Stripe requests of an instance, 1/s",
        "as above; the parameter files set it for each mode",
        (
            (BICEP, "stripeMaxRequestsPerSecond", 0.5),
            (TERRAFORM, "max_requests_per_second", 10),
            (GCLOUD, "STRIPE_MAX_REQUESTS_PER_SECOND", 10),
        ),
    ),
    Number(
        "connections of the database",
        "Azure's come with the machine (859 in production, 429 on a desk)",
        ((TERRAFORM_DATABASE, "max_connections", 100),),
    ),
)


def numbers_page() -> str:
    """The text of docs/numbers.md."""
    rows = [
        f"| {number.name} | {_cell(number, (SETTINGS,))} | {_cell(number, (HOST_JSON, BICEP))} | "
        f"{_cell(number, (TERRAFORM, TERRAFORM_DATABASE))} | {number.because} |"
        for number in NUMBERS
    ]
    return _PAGE.format(
        rows="\n".join(rows),
        calls=STRIPE_CALLS_WITHIN_A_DELIVERY,
        hours=LONGEST_OUTAGE_HOURS,
        skew=MOST_CLOCK_SKEW_SECONDS,
    )


def _cell(number: Number, files: Sequence[str]) -> str:
    return "<br>".join(
        f"{value:g} `{name}`" for place, name, value in number.places if place in files
    )


_PAGE = """\
# Numbers that hang together

Change none of them alone. `chargeonce doctor --offline` holds this table against the defaults of
the settings, host.json, the Bicep, the Terraform and `infra/gcp/gcloud/common.sh`. It is written by
`make reference` from `ops/doctor/numbers.py`.

| number | default of the setting | Azure | Google Cloud | because |
|---|---|---|---|---|
{rows}

In one line: one attempt < budget < lease < lock or ack deadline, and budget + one attempt < the
function's timeout < ack deadline. Lock and deadline also hold {calls} attempts. Deliveries times
their pace outlast {hours:g} hours without a database, and `BILLING_MAX_DELIVERIES` is the queue's
`maxDeliveryCount` or the subscription's `max_delivery_attempts`. Clocks differ by no more than
{skew:g} s.
"""
