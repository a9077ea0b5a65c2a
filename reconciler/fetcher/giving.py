"""``python -m reconciler.fetcher.giving FOLDER SOCKET``: give verified weights to nodes that have none.

It ends with the agent that has started it, whose end closes its standard input, or when nobody has connected for a
while.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from pathlib import Path

from reconciler.wire.codec import WireError

from .peer import SILENT_SECONDS, serve

IDLE_SECONDS = 120.0


def main(folder: Path, path: Path) -> None:
    """Serve every connection in its own thread."""
    threading.Thread(target=_end_with_agent, daemon=True).start()
    path.unlink(missing_ok=True)
    working: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(8)
        listener.settimeout(IDLE_SECONDS)
        while True:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                if any(thread.is_alive() for thread in working):
                    continue
                break
            connection.settimeout(SILENT_SECONDS)
            working = [thread for thread in working if thread.is_alive()]
            working.append(threading.Thread(target=_give, args=(folder, connection), daemon=True))
            working[-1].start()
    path.unlink(missing_ok=True)


def _give(folder: Path, connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError, ValueError, KeyError, WireError):
        serve(folder, connection)


def _end_with_agent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
