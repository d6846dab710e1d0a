"""What checks infra/ and is not in `.venv`: `make infra` puts it into an environment of its own."""

from pathlib import Path

from tests.support.missing import skip_outside_ci

ROOT = Path(__file__).resolve().parents[2]
INFRA_ENVIRONMENT = ROOT / ".venv-infra"


def infra_program(name: str) -> Path:
    """A program of that environment; without it the test is skipped, and fails in CI.

    Args:
        name: of the program.
    """
    program = INFRA_ENVIRONMENT / "bin" / name
    if not program.exists():
        skip_outside_ci(f"there is no {name}: `make infra` installs it")
    return program


def infra_packages() -> Path:
    """Where that environment's packages are, to be read; without them the test is skipped."""
    found = sorted(INFRA_ENVIRONMENT.glob("lib/python*/site-packages"))
    if not found:
        skip_outside_ci(f"there is no {INFRA_ENVIRONMENT.name}: `make infra` prepares it")
    return found[0]
