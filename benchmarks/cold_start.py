"""What importing the functions adds to a cold start, beside the framework that they need anyway."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PROCESSES = 7
MOST_TIMES_THE_FRAMEWORK = 1.0

_MEASURE = """
import json, time
started = time.perf_counter()
import functions_framework
framework_seconds = time.perf_counter() - started
started = time.perf_counter()
import main
print(json.dumps([framework_seconds, time.perf_counter() - started]))
"""


def import_once() -> tuple[float, float]:
    """Import in a process of its own; the framework's seconds, and ours on top."""
    command = [sys.executable, "-c", _MEASURE]
    output = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout
    framework_seconds, main_seconds = json.loads(output)
    return framework_seconds, main_seconds


def main() -> int:
    """Measure, print, judge."""
    import_once()  # writes the byte code
    # The best of a few, so that a busy machine does not decide.
    framework_seconds, main_seconds = map(
        min, zip(*(import_once() for _ in range(PROCESSES)), strict=True)
    )
    ratio = main_seconds / framework_seconds
    print(
        f"{'import of main':32}{main_seconds * 1000:9.0f} ms{ratio:7.2f} x functions-framework's "
        f"{framework_seconds * 1000:.0f} ms"
    )
    if ratio > MOST_TIMES_THE_FRAMEWORK:
        print(f"main takes more than {MOST_TIMES_THE_FRAMEWORK} times functions-framework")
        return 1
    return 0
