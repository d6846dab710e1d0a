"""Waiting: bounded, and over when somebody interrupts."""

import os
import signal

import pytest

from local.demo.waiting import ending_when_interrupted, wait_until

WAIT_SECONDS = 20.0


def test_it_waits_no_longer_than_was_said() -> None:
    assert not wait_until(lambda: False, 0.3)
    assert wait_until(lambda: True, 0.0)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_library_swallows_still_ends_it(ending: signal.Signals) -> None:
    before = signal.getsignal(ending)
    with ending_when_interrupted():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), ending)
        with pytest.raises(KeyboardInterrupt):
            wait_until(lambda: False, WAIT_SECONDS)
    assert signal.getsignal(ending) == before


def test_an_earlier_interrupt_is_forgotten() -> None:
    with ending_when_interrupted():
        assert not wait_until(lambda: False, 0.3)
