"""What people, other systems and fate do to a simulation from outside."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from local.simulation.customers import StripeCustomer
from local.simulation.judge import Judge
from local.simulation.plan import CURRENCY, PERIOD, Intervention, InterventionKind, Plan
from local.simulation.stage import Stage
from local.simulation.stripe_side import StripeSide
from local.stripe_simulator.parameters import Parameters
from local.stripe_simulator.payment_intents import authenticate
from local.stripe_simulator.world import Call
from shared.record import UNFINISHED, Flow, Record
from shared.store.memory import MemoryStore

OPERATOR = "operator"
ASKING_CARD = "pm_card_authenticationRequired"
PAYMENT_STORED = "records.store_payment.after"


class Interventions:
    """Carries the plan's interventions out.

    Args:
        stage: time, chance and the trace.
        plan: the run's cap.
        store: where runs are opened and closed.
        stripe: where customers and payments are changed.
        judge: hears who may rightly be refused from now on.
        customers: the plan's, in their order.
        switch_flow: deploys a process anew with the other flow.
    """

    def __init__(
        self,
        stage: Stage,
        plan: Plan,
        store: MemoryStore,
        stripe: StripeSide,
        judge: Judge,
        customers: Sequence[StripeCustomer],
        switch_flow: Callable[[int], None],
    ) -> None:
        self._stage = stage
        self._plan = plan
        self._store = store
        self._stripe = stripe
        self._judge = judge
        self._customers = customers
        self._actions: Mapping[InterventionKind, Callable[[int], None]] = {
            InterventionKind.OPEN_RUN: lambda _: self.open_run(),
            InterventionKind.CLOSE_RUN: lambda _: self._close_run(),
            InterventionKind.RAISE_CAP: lambda _: self._raise_cap(),
            InterventionKind.MEND_CARD: self._mend_card,
            InterventionKind.BREAK_CARD: self._break_card,
            InterventionKind.DELETE_CUSTOMER: self._delete_customer,
            InterventionKind.CANCEL_INTENT: self._cancel_intent,
            InterventionKind.ASK_CUSTOMER: self._ask_customer,
            InterventionKind.STRIPE_AWAY: lambda _: self._stripe.go_away(),
            InterventionKind.DATABASE_AWAY: lambda _: self._take_database_away(),
            InterventionKind.SWITCH_FLOW: switch_flow,
        }

    def carry_out(self, intervention: Intervention) -> None:
        """Do it now."""
        self._stage.cover(f"intervention {intervention.kind}")
        self._stage.tell(OPERATOR, intervention.kind, str(intervention.subject))
        self._actions[intervention.kind](intervention.subject)
        self._judge.look()

    def open_run(self) -> None:
        """Open the period's run; an open one stays as it is."""
        self._store.open_run(PERIOD, CURRENCY, self._plan.cap_cents, self._plan.cap_cents)

    def end(self) -> None:
        """Bring everything back that is away."""
        self._stripe.is_away = False
        self._stage.is_database_away = False
        if self._plan.require_run:
            self.open_run()

    def _close_run(self) -> None:
        if self._store.get_run(PERIOD) is not None:
            self._store.close_run(PERIOD, "operator")

    def _raise_cap(self) -> None:
        run = self._store.get_run(PERIOD)
        if run is not None:
            self._store.raise_cap(PERIOD, 2 * run.cap_cents)

    def _mend_card(self, subject: int) -> None:
        self._give_card(subject, "visa")

    def _break_card(self, subject: int) -> None:
        self._judge.excuse(self._stripe_customer_id(subject))
        self._give_card(subject, "chargeCustomerFail")

    def _give_card(self, subject: int, card: str) -> None:
        customer_path = f"/v1/customers/{self._stripe_customer_id(subject)}"
        attached = self._stripe.handle(
            "POST",
            f"/v1/payment_methods/pm_card_{card}/attach",
            {"customer": self._stripe_customer_id(subject)},
        )
        source = self._stripe.handle("POST", f"{customer_path}/sources", {"source": f"tok_{card}"})
        if attached.status == source.status == 200:
            defaults = {
                "invoice_settings[default_payment_method]": attached.json()["id"],
                "default_source": source.json()["id"],
            }
            self._stripe.handle("POST", customer_path, defaults)

    def _delete_customer(self, subject: int) -> None:
        self._judge.excuse(self._stripe_customer_id(subject))
        self._stripe.handle("DELETE", f"/v1/customers/{self._stripe_customer_id(subject)}")

    def _cancel_intent(self, subject: int) -> None:
        def cancel(record: Record, payment_id: str) -> None:
            self._judge.excuse(record.fingerprint.stripe_customer_id)
            self._judge.note_cancel(payment_id)
            self._stripe.handle("POST", f"/v1/payment_intents/{payment_id}/cancel")

        self._meddle(subject, cancel)

    def _ask_customer(self, subject: int) -> None:
        """Let a customer pay the stored PaymentIntent on the site, where the bank asks for more."""

        def ask(record: Record, payment_id: str) -> None:
            self._judge.excuse(record.fingerprint.stripe_customer_id)
            path = f"/v1/payment_intents/{payment_id}/confirm"
            self._stripe.handle("POST", path, {"payment_method": ASKING_CARD})
            delay_seconds = self._stage.chance.log_uniform(0.1, 60.0)
            self._stage.scheduler.call_after(delay_seconds, partial(self._authenticate, payment_id))

        self._meddle(subject, ask)

    def _meddle(self, subject: int, action: Callable[[Record, str], None]) -> None:
        """Do something to a PaymentIntent that may still move money, once there is one."""
        records = [
            record
            for record in self._store.records()
            if record.flow is Flow.PAYMENT_INTENT
            and record.payment_id is not None
            and record.state in UNFINISHED
        ]
        if not records:
            self._stage.ambush(PAYMENT_STORED, partial(self._meddle, subject, action))
            return
        record = records[subject % len(records)]
        self._stage.tell(OPERATOR, "meddle", f"{record.customer_id} {str(record.payment_id)[-6:]}")
        action(record, str(record.payment_id))

    def _authenticate(self, payment_id: str) -> None:
        intent = self._stripe.scope.payment_intents.get(payment_id)
        if intent is None or intent.status != "requires_action":
            return
        self._stage.cover("authenticated")
        self._stage.tell(OPERATOR, "authenticate", payment_id[-6:])
        call = Call(
            world=self._stripe.model.world,
            scope=self._stripe.scope,
            parameters=Parameters({}),
            now=self._stripe.model.now(),
            request_id="req_customer",
            object_id=payment_id,
        )
        authenticate(call, succeeds=True)
        self._judge.look()

    def _take_database_away(self) -> None:
        def bring_back() -> None:
            self._stage.is_database_away = False

        self._stage.is_database_away = True
        away_seconds = self._stage.chance.log_uniform(10.0, 7200.0)
        self._stage.scheduler.call_after(away_seconds, bring_back)

    def _stripe_customer_id(self, subject: int) -> str:
        return self._customers[subject % len(self._customers)].stripe_id
