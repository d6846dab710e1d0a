"""The emulator as a whole: in threads of this process."""

from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Final, Self

from local.pubsub_emulator.broker import Topic
from local.pubsub_emulator.clock import Clock
from local.pubsub_emulator.control import Control, LocalControl
from local.pubsub_emulator.control_server import ControlServer
from local.pubsub_emulator.errors import AlreadyExists
from local.pubsub_emulator.exchange import Exchange
from local.pubsub_emulator.names import subscription_name, topic_name
from local.pubsub_emulator.push import Pusher
from local.pubsub_emulator.server import GrpcServer
from local.pubsub_emulator.settings import Limits, SubscriptionSettings

LOOPBACK: Final = "127.0.0.1"
DEFAULT_PROJECT: Final = "chargeonce-local"


def environment_for(host_and_port: str, project: str) -> dict[str, str]:
    """Return the variables that lead Google's clients to an emulator."""
    return {
        "PUBSUB_EMULATOR_HOST": host_and_port,
        "PUBSUB_PROJECT_ID": project,
        "GOOGLE_CLOUD_PROJECT": project,
    }


class PubsubEmulator:
    """An emulator in threads of this process, as a context manager."""

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        control_port: int | None = None,
        project: str = DEFAULT_PROJECT,
        speed: float = 1.0,
        seed: int = 0,
        limits: Limits | None = None,
    ) -> None:
        """Prepare an emulator; entering the context starts it.

        Args:
            host: The address to listen on. Nobody has to prove who they are.
            port: The port of the Pub/Sub API; 0 takes a free one.
            control_port: The port of the control API; 0 takes a free one, None serves none.
            project: The project of short names, and of `environment`.
            speed: How many of Pub/Sub's seconds pass in a real one; see `Clock`.
            seed: Decides which improbable faults strike.
            limits: What is allowed.

        Raises:
            ValueError: The speed is out of bounds.
        """
        self._host = host
        self._wanted_port = port
        self._wanted_control_port = control_port
        self._project = project
        self._exchange = Exchange(Clock(speed), limits, seed)
        self._control = LocalControl(self._exchange)
        self._running = ExitStack()
        self._port = 0
        self._control_port = 0

    @property
    def host_and_port(self) -> str:
        """Where it listens, as PUBSUB_EMULATOR_HOST wants it."""
        return f"{self._host}:{self._port}"

    @property
    def control_url(self) -> str:
        """Where the control API is, if there is one."""
        return f"http://{self._host}:{self._control_port}"

    @property
    def control(self) -> Control:
        """Faults, the record of what happened, and cutting streams."""
        return self._control

    @property
    def project(self) -> str:
        """The project of short names."""
        return self._project

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead Google's clients here."""
        return environment_for(self.host_and_port, self._project)

    def topic_path(self, topic: str) -> str:
        """The full name of a topic."""
        return topic_name(self._project, topic)

    def subscription_path(self, subscription: str) -> str:
        """The full name of a subscription."""
        return subscription_name(self._project, subscription)

    def add_topic(self, topic: str) -> None:
        """Make a topic, by its full name or its last part, unless there is one."""
        name = self.topic_path(topic)
        with self._exchange.administer() as broker, suppress(AlreadyExists):
            broker.create_topic(Topic(name))

    def add_subscription(self, topic: str, subscription: str) -> None:
        """Make a subscription with Pub/Sub's default settings, unless there is one.

        Raises:
            NotFound: There is no such topic.
        """
        settings = SubscriptionSettings(
            self.subscription_path(subscription), self.topic_path(topic)
        )
        with self._exchange.administer() as broker, suppress(AlreadyExists):
            broker.create_subscription(settings)

    def __enter__(self) -> Self:
        """Start the emulator; it serves at once.

        Raises:
            OSError: A port cannot be had.
        """
        with ExitStack() as starting:
            server = GrpcServer(self._exchange, self._host, self._wanted_port)
            starting.callback(server.stop)
            self._port = server.port
            if self._wanted_control_port is not None:
                control_server = ControlServer(self._control, self._host, self._wanted_control_port)
                starting.callback(control_server.stop)
                self._control_port = control_server.port
                control_server.start()
            pusher = Pusher(self._exchange)
            starting.callback(pusher.stop)
            starting.callback(self._exchange.close)
            self._exchange.start()
            pusher.start()
            server.start()
            self._running = starting.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the emulator: streams end with UNAVAILABLE, and everything is forgotten."""
        self._running.close()
