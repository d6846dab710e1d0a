"""The entry point of `chargeonce`. Commands do the work; this prints what they hand back."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence

from ops import (
    adopt,
    cancel,
    demo,
    dlq,
    erase,
    import_records,
    migrate,
    publish,
    rebuild,
    reconcile,
    retry,
    runs,
    show,
    status,
    vault,
)
from ops.arguments import HelpFormatter
from ops.audit import command as audit
from ops.doctor import command as doctor
from ops.errors import PackageMissing, PlaceUnavailable
from ops.exit_codes import ExitCode, exit_code_table
from ops.report import Report
from shared.errors import (
    ChargeonceError,
    RecordsUnavailable,
    SchemaMismatch,
    SettingsError,
    StripeUnavailable,
)

PROGRAM = "chargeonce"

_FAMILIES = (
    migrate,
    publish,
    runs,
    status,
    show,
    reconcile,
    dlq,
    retry,
    cancel,
    adopt,
    import_records,
    erase,
    vault,
    rebuild,
    audit,
    doctor,
    demo,
)

_EPILOG = f"""\
Every command takes --json and then prints one JSON object on standard output, also when it fails.
The database is the one that DATABASE_URL names. `{PROGRAM} COMMAND --help` shows examples.

exit codes:
{exit_code_table()}
"""

_EXIT_CODES: Mapping[type[ChargeonceError], ExitCode] = {
    SettingsError: ExitCode.SETTINGS,
    RecordsUnavailable: ExitCode.DATABASE,
    SchemaMismatch: ExitCode.SCHEMA,
    PackageMissing: ExitCode.PACKAGE,
    StripeUnavailable: ExitCode.STRIPE,
    PlaceUnavailable: ExitCode.BROKER,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments; the process's own when None.

    Returns:
        The exit code, one of `ExitCode`. Wrong arguments and `--help` leave by `SystemExit`.
    """
    arguments = build_parser().parse_args(argv)
    try:
        report: Report = arguments.run(arguments)
        _print(report, as_json=arguments.json)
    except KeyboardInterrupt:
        return _fail(ExitCode.INTERRUPTED, "interrupted", arguments)
    except BrokenPipeError:
        _abandon_stdout()
        return ExitCode.OK
    except ChargeonceError as error:
        return _fail(_exit_code_of(error), str(error), arguments)
    except Exception as error:  # noqa: BLE001 - its text stays out: it may quote a secret
        return _fail(ExitCode.DEFECT, _describe_defect(error), arguments)
    return report.exit_code


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Charges every customer exactly once per billing period.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for family in _FAMILIES:
        family.add_commands(commands)
    return parser


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        _print_document(report)
    else:
        from ops.tables import open_console

        report.show(open_console())
    sys.stdout.flush()


def _print_document(report: Report) -> None:
    # One object, written piece by piece when it has long lists.
    print(json.dumps(report.document).removesuffix("}"), end="")
    separator = ", " if report.document else ""
    for name, items in report.lists:
        print(f"{separator}{json.dumps(name)}: [", end="")
        for number, item in enumerate(items):
            print(", " * bool(number) + json.dumps(item), end="")
        print("]", end="")
        separator = ", "
    print("}")


def _fail(code: ExitCode, message: str, arguments: argparse.Namespace) -> int:
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    if arguments.json:
        error = {"kind": code.name.lower(), "exit_code": int(code), "message": message}
        print(json.dumps({"error": error}))
    return code


def _exit_code_of(error: ChargeonceError) -> ExitCode:
    matching = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
    return next(matching, ExitCode.FAILED)


def _describe_defect(error: Exception) -> str:
    from shared.decision_log import describe_defect

    return f"unexpected error ({describe_defect(error)}): please report it"


def _abandon_stdout() -> None:
    """Whoever read standard output is gone: let the interpreter's last flush find no pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
