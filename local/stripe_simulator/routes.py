"""Which endpoint answers which method and path."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from local.stripe_simulator import (
    charges,
    customers,
    disputes,
    payment_intents,
    payment_methods,
    refunds,
)
from local.stripe_simulator.keyring import Permission
from local.stripe_simulator.parameters import FormValue
from local.stripe_simulator.rendering import render_account
from local.stripe_simulator.wire import JsonObject
from local.stripe_simulator.world import Call

Form: TypeAlias = Mapping[str, FormValue]


class Pays(Enum):
    """When a request to an endpoint charges a payment method."""

    NEVER = auto()
    WHEN_CONFIRMED = auto()
    ALWAYS = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint. `locks` means that only one request may work on the path's object at once."""

    method: str
    template: str
    resource: str
    handler: Callable[[Call], JsonObject]
    locks: bool = False
    pays: Pays = Pays.NEVER

    @property
    def permission(self) -> Permission:
        """What a restricted key needs for it."""
        return Permission.READ if self.method == "GET" else Permission.WRITE

    def charges(self, form: Form) -> bool:
        """Return whether a request with these parameters charges a payment method."""
        if self.pays is Pays.WHEN_CONFIRMED:
            return form.get("confirm") == "true"
        return self.pays is Pays.ALWAYS


def find_route(method: str, path: str) -> tuple[Route, str] | None:
    """Return the endpoint of a path and the object id in it (or an empty text), or None."""
    route = _ROUTES.get((method, path))
    if route is not None:
        return route, ""
    segments = path.split("/")
    if len(segments) < 4:
        return None
    object_id = segments[3]
    segments[3] = "{id}"
    route = _ROUTES.get((method, "/".join(segments)))
    return None if route is None else (route, object_id)


def _retrieve_account(call: Call) -> JsonObject:
    call.parameters.refuse_unknown({"expand"})
    return render_account(call.scope)


def _post(
    template: str,
    resource: str,
    handler: Callable[[Call], JsonObject],
    pays: Pays = Pays.NEVER,
) -> Route:
    return Route("POST", template, resource, handler, locks="{id}" in template, pays=pays)


def _get(template: str, resource: str, handler: Callable[[Call], JsonObject]) -> Route:
    return Route("GET", template, resource, handler)


ROUTES = (
    _get("/v1/account", "account", _retrieve_account),
    _post("/v1/customers", "customers", customers.create),
    _get("/v1/customers", "customers", customers.list_all),
    _get("/v1/customers/search", "customers", customers.search),
    _get("/v1/customers/{id}", "customers", customers.retrieve),
    _post("/v1/customers/{id}", "customers", customers.update),
    Route("DELETE", "/v1/customers/{id}", "customers", customers.delete, locks=True),
    _get("/v1/customers/{id}/payment_methods", "customers", payment_methods.list_for_customer),
    _post("/v1/customers/{id}/sources", "customers", payment_methods.create_source),
    _get("/v1/customers/{id}/sources", "customers", payment_methods.list_sources),
    _post("/v1/payment_methods", "payment_methods", payment_methods.create),
    _get("/v1/payment_methods", "payment_methods", payment_methods.list_all),
    _get("/v1/payment_methods/{id}", "payment_methods", payment_methods.retrieve),
    _post("/v1/payment_methods/{id}/attach", "payment_methods", payment_methods.attach),
    _post("/v1/payment_methods/{id}/detach", "payment_methods", payment_methods.detach),
    _post("/v1/payment_intents", "payment_intents", payment_intents.create, Pays.WHEN_CONFIRMED),
    _get("/v1/payment_intents", "payment_intents", payment_intents.list_all),
    _get("/v1/payment_intents/search", "payment_intents", payment_intents.search),
    _get("/v1/payment_intents/{id}", "payment_intents", payment_intents.retrieve),
    _post("/v1/payment_intents/{id}", "payment_intents", payment_intents.update),
    _post(
        "/v1/payment_intents/{id}/confirm", "payment_intents", payment_intents.confirm, Pays.ALWAYS
    ),
    _post("/v1/payment_intents/{id}/capture", "payment_intents", payment_intents.capture),
    _post("/v1/payment_intents/{id}/cancel", "payment_intents", payment_intents.cancel),
    _post("/v1/charges", "charges", charges.create, Pays.ALWAYS),
    _get("/v1/charges", "charges", charges.list_all),
    _get("/v1/charges/search", "charges", charges.search),
    _get("/v1/charges/{id}", "charges", charges.retrieve),
    _post("/v1/charges/{id}", "charges", charges.update),
    _post("/v1/charges/{id}/capture", "charges", charges.capture),
    _post("/v1/refunds", "refunds", refunds.create),
    _get("/v1/refunds", "refunds", refunds.list_all),
    _get("/v1/refunds/{id}", "refunds", refunds.retrieve),
    _get("/v1/disputes", "disputes", disputes.list_all),
    _get("/v1/disputes/{id}", "disputes", disputes.retrieve),
)

_ROUTES = {(route.method, route.template): route for route in ROUTES}
