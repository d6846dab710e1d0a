"""The worker that pulls, in a process where SIGTERM interrupts another thread than the main one."""

import os
import signal
import threading

from gcp_function.pull import main

if __name__ == "__main__":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    # Threads take over what is blocked in the one that starts them: that one alone is left.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os._exit(main())
