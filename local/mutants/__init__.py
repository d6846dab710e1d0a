"""The code without one of its safeties at a time: whatever is taken out, something must notice.

Each mutant is an edit of the real source, made in a copy of the project. What the simulation runs
is hunted by seeds; what lives in SQL, in a trigger or beside the protocol, by the tests that guard
it. `python -m local.check_mutants` runs them.
"""
