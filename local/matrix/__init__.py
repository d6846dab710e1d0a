"""Every crash, and every crash after a crash: the real billing code killed at each port crossing.

Nothing here is drawn by chance. A scenario is run once to see which crossings there are; then it is
run again for each of them and killed there, recovered in several ways, and killed again at each
crossing of the recovery. The judge is the simulated Stripe's ledger.
`python -m local.check_crashes` runs it.
"""
