"""`python -m local.servicebus_emulator`."""

import sys

from local.servicebus_emulator.command import main

if __name__ == "__main__":
    sys.exit(main())
