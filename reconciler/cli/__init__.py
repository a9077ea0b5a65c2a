"""The command line, with kubectl's words for everything that kubectl has. The only room that prints."""

from __future__ import annotations

import _thread
import sys


def main() -> None:
    """Run the command that the arguments name, and exit; exit quietly even if Ctrl-C comes before it begins."""
    sys.unraisablehook = _interrupt_again
    try:
        from .core.app import run
        from .output.streams import prepare

        prepare()
        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that came in code that cannot raise (a destructor, a callback of a C library), and would be lost."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        # From a thread: here it would be raised within this hook, and be lost again.
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        sys.__unraisablehook__(lost)
