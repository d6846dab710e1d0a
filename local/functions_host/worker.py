"""The worker process: the real runtime, told what to do in JSON lines on standard input.

The real worker and its host speak gRPC; what they say is the same. Whatever the function app prints
or logs goes to standard error.
"""

import asyncio
import base64
import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import azure_functions_runtime as runtime

from local.functions_host import worker_messages as messages
from local.functions_host.model_binding import CONTENT_TYPE, SOURCE, VERSION


class Worker:
    """One worker.

    Args:
        answers: Where the host reads.
    """

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, directory: Path) -> None:
        """Load the function app in a directory, then do what the host asks until it is gone."""
        sys.path.insert(0, str(directory))
        runtime.start_threadpool_executor()
        self._answer(await self._load(directory))
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            task = asyncio.create_task(self._invoke(json.loads(line)))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _load(self, directory: Path) -> dict[str, Any]:
        request = messages.wrap(
            "worker_init_request", capabilities={}, function_app_directory=str(directory)
        )
        initialized = await runtime.worker_init_request(request)
        if initialized.result.status != messages.StatusResult.Success:
            return {"failure": initialized.result.exception.message}
        metadata = await runtime.functions_metadata_request(messages.wrap("functions_metadata"))
        functions = metadata.function_metadata_results or []
        for function in functions:
            request = messages.wrap("function_load_request", function_id=function.function_id)
            await runtime.function_load_request(request)
        return {
            "failure": None,
            "functions": [
                {"id": each.function_id, "name": each.name, "bindings": each.raw_bindings}
                for each in functions
            ],
        }

    async def _invoke(self, asked: dict[str, Any]) -> None:
        response = await runtime.invocation_request(
            messages.invocation(asked["id"], asked["function_id"], _argument(asked))
        )
        is_success = response.result.status == messages.StatusResult.Success
        failure = None if is_success else response.result.exception.message
        answer = {"id": asked["id"], "failure": failure}
        if is_success and "http" in asked:
            answer["http"] = _http_answer(response.return_value.http)
        self._answer(answer)

    def _answer(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()


def _argument(asked: dict[str, Any]) -> messages.OneOf:
    if "timer" in asked:
        return messages.input_data(asked["argument"], "json", json.dumps(asked["timer"]))
    if "http" in asked:
        body = messages.OneOf(bytes=base64.b64decode(asked["http"]["body"]))
        call = SimpleNamespace(**{**asked["http"], "body": body, "params": {}, "query": {}})
        return messages.input_data(asked["argument"], "http", call)
    bound = SimpleNamespace(
        version=VERSION,
        source=SOURCE,
        content_type=CONTENT_TYPE,
        content=base64.b64decode(asked["content"]),
    )
    return messages.input_data(asked["argument"], "model_binding_data", bound)


def _http_answer(http: SimpleNamespace) -> dict[str, Any]:
    return {
        "status": int(http.status_code),
        "headers": http.headers,
        "body": base64.b64encode(http.body.bytes).decode(),
    }


def main() -> None:
    """Run until standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # As the real worker does; without it the decisions of the function app would be filtered out.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("azure").setLevel(logging.WARNING)
    directory = Path(sys.argv[sys.argv.index("--directory") + 1])
    asyncio.run(Worker(answers).run(directory))
    # A function that still runs must not keep the process when its host is gone.
    os._exit(0)


if __name__ == "__main__":
    main()
