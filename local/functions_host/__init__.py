"""What the Azure Functions host does, in so far as a test can see it, around the real runtime.

    with FunctionsHost(directory, connection_string, environment) as host:
        ...
        host.kill_worker()

`worker` runs the real `azure-functions-runtime` in a process of its own and brings it the messages
that the host sends to its workers; `worker_messages` are their shapes. `host` receives with the
real SDK, renews locks and abandons when a function raises; `settlement` is the service that a
function's settlements come to; `host_json` and `model_binding` are what they say.

The runtime exists for Python 3.13 on Linux alone: `MISSING` says what is missing, if anything is.
"""

from importlib.util import find_spec
from typing import Final

_NEEDED: Final = ("azure_functions_runtime", "uamqp")

MISSING: Final = ", ".join(name for name in _NEEDED if find_spec(name) is None)
