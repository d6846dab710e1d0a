"""Parses gcloud commands, and runs some, in one process. Runs under gcloud's own Python.

gcloud takes a second or two to start, so it is started once: its launcher is told to run this file
(`CLOUDSDK_PYTHON_ARGS`) and hands over where gcloud's code is. Standard input is a JSON list of
`{"arguments": [...], "runs": bool}`; standard output a list of what was wrong with each, or null.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """See the module."""
    commands = json.load(sys.stdin)
    answers, sys.stdout = sys.stdout, sys.stderr
    sys.path.insert(0, str(Path(sys.argv[-1]).parent))
    import gcloud  # noqa: F401 (it puts gcloud's libraries on the path)
    from googlecloudsdk import gcloud_main

    cli = gcloud_main.CreateCLI([])
    # The parser that `cli.Execute` uses too.
    parser = cli._CLI__parser
    json.dump([_problem(cli, parser, each) for each in commands], answers)


def _problem(cli: Any, parser: Any, command: dict[str, Any]) -> str | None:
    try:
        parsed = parser.parse_args(command["arguments"])
        if not hasattr(parsed, "command_path"):
            return "this is a group of commands"
        if command["runs"]:
            cli.Execute(command["arguments"])
    except SystemExit as error:
        return f"gcloud ends with {error.code}" if error.code else None
    except Exception as error:  # noqa: BLE001 (whatever it is, the test tells)
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    main()
