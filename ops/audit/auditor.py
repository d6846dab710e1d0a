"""The audit itself: reads both sides, judges, and looks again before it accuses anybody.

A payment that is made meanwhile cannot be reported by mistake: payments are read up to the moment
at which the audit began, records after that, and every suspect is judged once more as it is then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from math import ceil, floor
from typing import Any, Protocol
from urllib.parse import quote

from ops.audit.findings import Finding
from ops.audit.judging import Case, judge, judge_alike, judge_run
from ops.audit.payments import Payment, read_dispute, read_payment
from ops.audit.workbook import Workbook
from ops.errors import Refused
from shared.errors import StripeUnavailable
from shared.ports import Books, RecordLine
from shared.record import RecordId
from shared.stripe_lists import Page

BATCH_LINES = 2000
CASES_PER_STEP = 500
IDS_AT_ONCE = 1000
# Records of payments that were read may have begun earlier.
MARGIN = timedelta(days=7)

_PAYMENTS, _DISPUTES = "payments", "disputes"
_FORBIDDEN = 403

Tell = Callable[[str, float], None]
"""Gets what is going on, and how much of it is done, from 0 to 1."""


class Lists(Protocol):
    """Stripe, to read."""

    def pages(
        self, path: str, parameters: Mapping[str, str], cursor: str | None = None
    ) -> Iterator[Page]:
        """See `StripeLists.pages`."""

    def get(self, path: str) -> Mapping[str, Any] | None:
        """See `StripeLists.get`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is compared.

    Args:
        billing_period: only this one; None for all.
        since: payments made since.
        until: and no later than this, the moment at which the audit began.
    """

    billing_period: str | None
    since: datetime
    until: datetime


class Auditor:
    """One audit.

    Args:
        lists: Stripe.
        books: our records.
        workbook: keeps what was read; one that was begun is gone on with.
        scope: what is compared. Must be the same when an audit is gone on with.
        apart: payments without a mark that lie further apart are for different periods.
        tell: told of the progress.
    """

    def __init__(
        self,
        lists: Lists,
        books: Books,
        workbook: Workbook,
        scope: Scope,
        apart: timedelta,
        tell: Tell,
    ) -> None:
        self._lists = lists
        self._books = books
        self._workbook = workbook
        self._scope = scope
        self._apart = apart
        self._tell = tell

    def run(self) -> None:
        """Read, judge, and leave the findings in the workbook.

        Raises:
            StripeUnavailable: what was read so far is kept, and no finding.
            RecordsUnavailable: the same.
        """
        self._read_payments()
        self._read_disputes()
        self._read_records()
        self._workbook.pair()
        self._recognize()
        self._workbook.replace_findings(self._findings())

    def _read_payments(self) -> None:
        scope = self._scope
        parameters = {
            "created[gte]": str(floor(scope.since.timestamp())),
            "created[lte]": str(ceil(scope.until.timestamp())),
        }
        # Charges and not PaymentIntents: they alone tell what was captured and given back, and they
        # carry the PaymentIntent's metadata.
        for page in self._pages("/v1/charges", parameters, _PAYMENTS):
            found = (read_payment(charge) for charge in page.items)
            chosen = (each for each in found if each is not None and self._concerns(each))
            self._workbook.add_payments(chosen, _PAYMENTS, [page.cursor])

    def _read_disputes(self) -> None:
        # A dispute is never older than its payment, and may come long after it.
        parameters = {"created[gte]": str(floor(self._scope.since.timestamp()))}
        for page in self._pages("/v1/disputes", parameters, _DISPUTES):
            found = (read_dispute(dispute) for dispute in page.items)
            costly = (each for each in found if each is not None)
            self._workbook.add_disputes(costly, _DISPUTES, [page.cursor])

    def _pages(self, path: str, parameters: Mapping[str, str], place: str) -> Iterator[Page]:
        """Yield the pages that are still to be read. A place is [cursor], and [None] at the end."""
        noted = self._workbook.noted(place)
        if noted == [None]:
            return
        self._tell(f"reading {place}", 0.0)
        for page in self._lists.pages(path, parameters, noted[0] if noted else None):
            yield page
            self._tell(f"reading {place}", self._share_read(page))

    def _share_read(self, page: Page) -> float:
        """How much of the time that is asked for a list has been gone back through."""
        if page.cursor is None:
            return 1.0
        since, until = self._scope.since.timestamp(), self._scope.until.timestamp()
        reached = float(page.items[-1]["created"])
        return min(1.0, max(0.0, (until - reached) / max(1.0, until - since)))

    def _concerns(self, payment: Payment) -> bool:
        period = self._scope.billing_period
        return period is None or payment.mark is None or payment.mark.billing_period == period

    def _read_records(self) -> None:
        self._workbook.forget_records()
        since = self._scope.since - MARGIN
        after: RecordId | None = None
        self._tell("reading records", 0.0)
        while True:
            batch = self._books.batch(self._scope.billing_period, since, after, BATCH_LINES)
            self._workbook.add_records(batch.lines)
            if batch.last is None:
                return
            after = batch.last

    def _recognize(self) -> None:
        """Find out which of the unmarked suspects a record names, of whatever period and age."""
        for charges in self._workbook.unknown_alike(IDS_AT_ONCE):
            named = self._books.named(frozenset(chain.from_iterable(charges)))
            self._workbook.note_known(pair[0] for pair in charges if not named.isdisjoint(pair))

    def _findings(self) -> Iterator[Finding]:
        yield from self._judge_cases()
        for group in self._workbook.alike():
            yield from judge_alike(group, self._apart.total_seconds())
        for period in self._workbook.periods():
            sums = self._books.run_sums(period)
            if sums is not None:
                yield from judge_run(sums)

    def _judge_cases(self) -> Iterator[Finding]:
        total = max(self._workbook.count("records"), self._workbook.count("payments"), 1)
        cases = self._workbook.cases(self._scope.since, self._scope.until)
        for number, case in enumerate(cases):
            if number % CASES_PER_STEP == 0:
                self._tell("comparing", min(1.0, number / total))
            if any(judge(case)):
                yield from judge(self._look_again(case))

    def _look_again(self, case: Case) -> Case:
        """The case as it is now: its record anew, and its payment from wherever it is."""
        now = replace(case, line=self._books.line(case.record_id))
        if now.line is None or not now.is_named_missing:
            return now
        payment, status = self._find_named(now.line)
        if payment is None:
            return replace(now, named_status=status)
        disputed = replace(payment, disputes=self._workbook.disputes_of(payment.charge_id))
        return replace(now, payments=[*now.payments, disputed])

    def _find_named(self, line: RecordLine) -> tuple[Payment | None, str | None]:
        """The payment that a record names, or its status at Stripe when its money did not move."""
        payment_id = str(line.payment_id)
        charge_id: str | None = payment_id
        status: str | None = None
        if payment_id.startswith("pi_"):
            intent = self._lists.get(f"/v1/payment_intents/{quote(payment_id, safe='')}")
            if intent is None:
                return None, None
            status, charge_id = str(intent["status"]), intent.get("latest_charge")
        charge = self._lists.get(f"/v1/charges/{quote(charge_id, safe='')}") if charge_id else None
        if charge is None:
            return None, status
        return read_payment(charge), status or str(charge["status"])


def check_identity(lists: Lists, books: Books, key_livemode: bool | None) -> None:
    """Make sure that both sides are of one Stripe account and mode.

    A key that may not read its account is held to its mode alone.

    Raises:
        Refused: they are not.
        StripeUnavailable: Stripe could not be asked.
    """
    known = books.known_identity()
    if None not in (known.livemode, key_livemode) and known.livemode != key_livemode:
        raise Refused("STRIPE_API_KEY is of the other mode than the records: live or test")
    try:
        account = lists.get("/v1/account") or {}
    except StripeUnavailable as error:
        if error.status != _FORBIDDEN:
            raise
        return
    if known.account_id is not None and account.get("id") != known.account_id:
        raise Refused("STRIPE_API_KEY opens another Stripe account than the records belong to")
