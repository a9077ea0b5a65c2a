"""The ends of the ranks of jobs."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


class Terminated(Exception):
    """The shim has asked the rank to end."""


def describe(status: int) -> str:
    """Return how a program ended, from its status of ``waitpid``, for people."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        names = {each.value: each.name for each in signal.Signals}
        return "signal {} ({})".format(number, names.get(number, "a real-time signal"))
    return "status {}".format(os.WEXITSTATUS(status))


def end_like(status: int) -> NoReturn:
    """End this process with a status of ``waitpid``: by the same signal, if a signal ended the program."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # only for a signal that ends nothing by default
    os._exit(os.WEXITSTATUS(status))
