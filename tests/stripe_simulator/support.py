"""A model with a clock and shorthands for what most tests do."""

from collections.abc import Mapping
from typing import Any

from local.stripe_simulator import (
    CustomerSeed,
    DisputeOpening,
    Fault,
    FaultKind,
    Match,
    Options,
    Request,
    Response,
    SeededCustomer,
    SettableClock,
    StripeModel,
    seed_customers,
)
from local.stripe_simulator.disputes import open_dispute
from local.stripe_simulator.keyring import DEFAULT_ACCOUNT
from local.stripe_simulator.records import Scope
from local.stripe_simulator.wire import JsonObject

EPOCH = 1_800_000_000.0
DAY_SECONDS = 24 * 3600.0
CONFIRM = "/v1/payment_intents/*/confirm"

Form = Mapping[str, object]

NO_REDIRECTS: Form = {
    "automatic_payment_methods[enabled]": True,
    "automatic_payment_methods[allow_redirects]": "never",
}


class Desk:
    """A simulated Stripe with a clock that stands still, driven without HTTP."""

    def __init__(self, seed: int = 1, options: Options | None = None) -> None:
        self.clock = SettableClock.frozen(EPOCH)
        self.model = StripeModel(seed, self.clock.now, options)

    @property
    def scope(self) -> Scope:
        return self.model.world.scope(DEFAULT_ACCOUNT, livemode=False)

    def send(
        self,
        method: str,
        path: str,
        form: Form | None = None,
        *,
        key: str | None = None,
        api_key: str = "sk_test_desk",
        api_version: str = "2026-10-28.endive",
    ) -> Response:
        return self.model.handle(
            Request.build(
                method, path, form, api_key=api_key, idempotency_key=key, api_version=api_version
            )
        )

    def post(
        self,
        path: str,
        form: Form | None = None,
        *,
        key: str | None = None,
        api_key: str = "sk_test_desk",
    ) -> JsonObject:
        """Post and return the object; a test that expects an error uses `refused`."""
        response = self.send("POST", path, form, key=key, api_key=api_key)
        assert response.status == 200, response.body
        return response.json()

    def get(
        self, path: str, form: Form | None = None, *, api_key: str = "sk_test_desk"
    ) -> JsonObject:
        response = self.send("GET", path, form, api_key=api_key)
        assert response.status == 200, response.body
        return response.json()

    def refused(
        self,
        status: int,
        path: str,
        form: Form | None = None,
        *,
        method: str = "POST",
        key: str | None = None,
        api_key: str = "sk_test_desk",
    ) -> JsonObject:
        """Send what must be refused with `status`, and return the error object."""
        response = self.send(method, path, form, key=key, api_key=api_key)
        assert response.status == status, response.body
        error = response.json()["error"]
        assert isinstance(error, dict)
        return error

    def customer(self, seed: CustomerSeed | None = None) -> SeededCustomer:
        return seed_customers(self.model, self.scope, seed or CustomerSeed())[0]

    def intent(
        self, customer: str | None = None, extra: Form | None = None, *, key: str | None = None
    ) -> JsonObject:
        form: dict[str, object] = {"amount": 1000, "currency": "usd", **NO_REDIRECTS}
        if customer is not None:
            form["customer"] = customer
        return self.post("/v1/payment_intents", {**form, **(extra or {})}, key=key)

    def confirm(
        self, intent: JsonObject, payment_method: str | None, *, key: str | None = None
    ) -> Response:
        form = {"off_session": True, "payment_method": payment_method}
        given = {name: value for name, value in form.items() if value is not None}
        return self.send("POST", f"/v1/payment_intents/{intent['id']}/confirm", given, key=key)

    def read(self, intent: JsonObject) -> JsonObject:
        return self.get(f"/v1/payment_intents/{intent['id']}")

    def paid_intent(self, extra: Form | None = None) -> JsonObject:
        """Return a PaymentIntent whose money moved."""
        customer = self.customer()
        intent = self.intent(customer.id, extra)
        response = self.confirm(intent, customer.payment_method)
        assert response.status == 200, response.body
        return response.json()

    def dispute(self, payment: str, **how: Any) -> JsonObject:
        """Let the customer dispute a payment."""
        return open_dispute(self.model.own_call(self.scope), DisputeOpening(payment, **how))

    def strike(self, kind: FaultKind, match: Match | None = None, **how: object) -> str:
        """Put a fault into force, by default for one confirm."""
        fault = {"kind": kind, **how}
        chosen = Match(path=CONFIRM, count=1) if match is None else match
        return self.model.faults.add(Fault(match=chosen, **fault))  # type: ignore[arg-type]
