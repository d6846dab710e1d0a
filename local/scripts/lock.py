"""Write the exact pins of requirements*.txt from the lists in pyproject.toml.

Run by `make lock`, which installs uv into the virtual environment first. One resolution covers
every supported Python and platform; what differs between them carries an environment marker.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
OLDEST_PYTHON: Final = "3.11"


@dataclass(frozen=True, slots=True)
class Layer:
    """One requirements file: the pins that its extras add to the layer below it.

    With a group in place of extras it stands alone, and holds nothing of the project's own.
    """

    file_name: str
    purpose: str
    extras: tuple[str, ...] = ()
    below: str | None = None
    group: str | None = None


LAYERS: Final = (
    Layer("requirements.txt", "what is deployed on both clouds"),
    Layer("requirements-ops.txt", "the chargeonce command", ("ops",), "requirements.txt"),
    Layer(
        "requirements-dev.txt",
        "tests, checks and the local cloud",
        ("ops", "dev"),
        "requirements-ops.txt",
    ),
    Layer(
        "requirements-ci.txt",
        "what is built from C source, so that `make` leaves it to CI",
        ("ops", "dev", "ci"),
        "requirements-dev.txt",
    ),
)
INFRA: Final = Layer(
    "requirements-infra.txt",
    "what checks infra/, for the environment that `make infra` prepares",
    group="infra",
)


def resolve(layer: Layer, constraints: Path, upgrade: bool) -> list[str]:
    """Return the pins of the layer's whole closure, in uv's order.

    Args:
        layer: Whose lists in pyproject.toml are meant.
        constraints: A requirements file whose pins must be kept; it may be empty.
        upgrade: Whether to take newer versions than those pinned so far.

    Raises:
        subprocess.CalledProcessError: The lists contradict each other, or no registry answered.
    """
    # `--output-file` on a copy of today's pins is how uv is told to prefer them.
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "pins.txt"
        output.write_text("" if upgrade else _pinned_today(layer))
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"]
        command += ["--python-version", OLDEST_PYTHON, "--no-annotate", "--no-header"]
        command += ["--constraints", str(constraints), "--output-file", str(output)]
        if layer.group is not None:
            command += ["--group", layer.group]
        else:
            command += [f"--extra={extra}" for extra in layer.extras] + ["pyproject.toml"]
        subprocess.run(command, cwd=ROOT, check=True)
        return output.read_text().splitlines()


def render(layer: Layer, pins: Sequence[str]) -> str:
    """Return the text of the layer's file."""
    purpose = layer.purpose[0].upper() + layer.purpose[1:]
    head = [f"# {purpose}. Written by `make lock` from pyproject.toml."]
    if layer.below is not None:
        head.append(f"-r {layer.below}")
    return "\n".join([*head, *pins]) + "\n"


def _pinned_today(layer: Layer) -> str:
    files = [ROOT / one.file_name for one in (LAYERS if layer in LAYERS else [layer])]
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    return "\n".join(line for line in lines if "==" in line) + "\n"


def main() -> None:
    """Pin the layers from the bottom up, each constrained by the one below."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions allowed")
    upgrade: bool = parser.parse_args().upgrade
    settled: list[str] = []
    texts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        constraints = Path(directory) / "constraints.txt"
        for layer in LAYERS:
            constraints.write_text("\n".join(settled) + "\n")
            closure = resolve(layer, constraints, upgrade)
            texts[ROOT / layer.file_name] = render(
                layer, [pin for pin in closure if pin not in settled]
            )
            settled = closure
        constraints.write_text("")
        infra_pins = resolve(INFRA, constraints, upgrade)
        texts[ROOT / INFRA.file_name] = render(INFRA, infra_pins)
    for file, text in texts.items():
        file.write_text(text)
        print(f"wrote {file.name}")


if __name__ == "__main__":
    main()
