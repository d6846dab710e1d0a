"""`python -m local.mutants.first_violation FLOW SEEDS`: the first seed that finds a violation."""

import json
import logging
import sys

from local.simulation import Flows, simulate


def main() -> None:
    """Print the seed and the invariant, or that there is none, as one JSON object."""
    logging.disable()
    flow, seeds = sys.argv[1], int(sys.argv[2])
    flows = None if flow == "any" else Flows(flow)
    for seed in range(1, seeds + 1):
        violation = simulate(seed, flows).violation
        if violation is not None:
            print(json.dumps({"seed": seed, "invariant": violation.invariant}))
            return
    print(json.dumps({"seed": None, "invariant": None}))


if __name__ == "__main__":
    main()
