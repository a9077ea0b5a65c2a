"""The command line: kubectl's words for what kubectl has. The only room that prints."""

from __future__ import annotations

import _thread
import sys


def main() -> None:
    """Run the command that the arguments name, and exit; quietly also where Ctrl-C comes before it has begun."""
    sys.unraisablehook = _interrupt_again
    try:
        from .core.app import run
        from .output.streams import prepare

        prepare()
        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Ctrl-C within what may not raise (a destructor, a callback of a C library) would be printed and forgotten."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # From a thread, for here it would be raised within this hook, and be lost once more.
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        sys.__unraisablehook__(lost)
