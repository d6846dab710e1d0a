"""No SDK logs what it sends or receives, whatever the host has logging do."""

import logging
from collections.abc import Iterator

import pytest

from local.stripe_simulator import serve_in_thread
from shared.ports import StripeRequest, StripeResponse
from shared.settings import read_settings
from shared.wiring import SDK_LOGGERS, build_payments

BODY = "hunter2-was-here"


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """Everything asked to say all it can, as some hosts do it."""
    before = {name: logging.getLogger(name).level for name in SDK_LOGGERS}
    for name in SDK_LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_stripe_says_nothing_of_requests_and_answers(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Goal: neither the request nor the answer is in any log or on any stream."""
    caplog.set_level(logging.DEBUG)
    with serve_in_thread() as simulator:
        environment = {
            "DATABASE_URL": "postgresql://nowhere/db",
            "STRIPE_API_KEY": "rk_test_hunter2",
            "STRIPE_API_BASE": simulator.base_url,
        }
        payments = build_payments(read_settings(environment))
        answer = payments.send(StripeRequest("post", "/v1/customers", {"description": BODY}), 10)
        payments.close()
    assert isinstance(answer, StripeResponse)
    assert BODY.encode() in answer.body
    streams = capfd.readouterr()
    assert "hunter2" not in caplog.text + streams.out + streams.err


@pytest.mark.parametrize(
    "logger",
    [
        "azure.servicebus._pyamqp._connection",
        "azure.identity",
        "google.pubsub_v1.services.publisher.transports.grpc",
        "google.cloud.pubsub_v1.subscriber._protocol.streaming_pull_manager",
        "stripe",
        "uamqp.connection",
    ],
)
def test_an_sdk_is_quiet_below_a_warning(logger: str) -> None:
    """Goal: the loggers that the SDKs really use are below those that are silenced."""
    environment = {"DATABASE_URL": "postgresql://nowhere/db", "STRIPE_API_KEY": "rk_test_1"}
    build_payments(read_settings(environment)).close()
    assert not logging.getLogger(logger).isEnabledFor(logging.INFO)
