"""Azure's half of the demo: what is counted from the logs of those who bill from the queue."""

from pathlib import Path

from local.demo.service_bus import QueueConsumers
from local.demo.workers import Workers

LOG = """\
{"event": "charged", "message_id": "one"}
{"event": "lock_lost", "message_id": "one", "code": "ServiceBusServerBusyError"}
{"event": "lock_lost", "message_id": "one"}
{"severity": "WARNING", "message": "the connection to Service Bus ended"}
Traceback (most recent call last):
{"event": "lock_lost", "message_id": "two"}
"""


def test_a_lost_lock_counts_once_whoever_noticed_it(tmp_path: Path) -> None:
    """The renewal tells that a lock is lost, and so does the settlement that comes too late."""
    log_file = tmp_path / "consumers.log"
    log_file.write_text(LOG)
    with log_file.open("ab") as log:
        processes = Workers(("azure_function.consumer",), {}, 0, log)
    assert QueueConsumers(processes, None, log_file).lost_locks() == 2
