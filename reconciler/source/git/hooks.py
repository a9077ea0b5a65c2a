"""Writes the git hooks of the cluster repository.

``pre-receive`` validates, and therefore needs the reconciler's own Python. ``post-receive`` only notifies the
controller and must be quick: plain Python that imports nothing of the product.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from reconciler.wire import SPOKEN

CONTROLLER_SOCKET = "controller.sock"
"""Folder of the hooks, beside the repository in the reconciler's home."""

CHECKED = "checked"
"""Folder within that of the hooks: those for a push that the pusher has validated himself."""

_PRE_RECEIVE = """\
#!/bin/sh
# Written by reconciler at each start: validates what is pushed to main.
[ -x {python} ] || {{
  echo "reconciler: "{python}" is gone; start the reconciler once to renew this hook" >&2
  exit 1
}}
exec {command}
"""

_POST_RECEIVE = """\
#!/bin/sh
# Written by reconciler at each start: notifies the controller.
[ -x {python} ] || exit 0
exec {python} -I -S {notify} {socket}
"""

_NOTIFY = '''\
"""Notify the controller that main or operations has moved. Never fails the push, and takes at most a second."""
import time
STARTED = time.time()
import json, socket, struct, sys

DEADLINE = time.monotonic() + 1.0


def exactly(connection, count):
    received = b""
    while len(received) < count:
        connection.settimeout(max(0.01, DEADLINE - time.monotonic()))
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise OSError("closed")
        received += chunk
    return received


def frame(message):
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


def notify(path):
    hello = {"type": "hello", "role": "hook", "versions": VERSIONS}
    look = {"call": 1, "type": "look", "name": "source", "at": STARTED}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        connection.connect(path)
        connection.sendall(frame(hello) + frame(look))
        while True:
            (length,) = struct.unpack(">I", exactly(connection, 4))
            if length > 1 << 20:
                raise ValueError("no frame of this protocol")
            answer = json.loads(exactly(connection, length))
            if answer.get("reply") == 1:
                return


def main():
    moved = [line.split() for line in sys.stdin]
    new = [fields[1] for fields in moved if fields[2:] in (["refs/heads/main"], ["refs/heads/operations"])]
    if not new:
        print("reconciler: only the branches main and operations are reconciled; this push changes nothing")
        return
    print("reconciler: revision %s received" % new[0][:7])
    try:
        notify(sys.argv[1])
    except TimeoutError:
        print("reconciler: the controller is busy; it will pick this up soon")
    except (OSError, ValueError, AttributeError):
        print("reconciler: the controller is not running; it will pick this up when it starts")


main()
'''


def command() -> tuple[str, ...]:
    """Return the command that validates a push with this installation, whatever the pusher's environment is."""
    root = Path(__file__).absolute().parents[3]
    module = "reconciler.source.hook"
    return ("/usr/bin/env", f"PYTHONPATH={root}", sys.executable, "-P", "-m", module, "pre-receive")


def install(folder: Path, hook_command: Sequence[str]) -> None:
    """Write the hooks that are missing or differ, each atomically."""
    (folder / CHECKED).mkdir(parents=True, exist_ok=True)
    socket = folder.absolute().parent.parent / CONTROLLER_SOCKET
    python = shlex.quote(sys.executable)
    notifying = _POST_RECEIVE.format(
        python=python,
        notify=shlex.quote(str(folder.absolute() / "notify.py")),
        socket=shlex.quote(str(socket)),
    )
    bodies = {
        "pre-receive": _PRE_RECEIVE.format(python=python, command=shlex.join(hook_command)),
        "post-receive": notifying,
        f"{CHECKED}/post-receive": notifying,
        "notify.py": _NOTIFY.replace("VERSIONS", repr(list(SPOKEN))),
    }
    for name, body in bodies.items():
        _write(folder / name, body)


def _write(path: Path, body: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == body and os.access(path, os.X_OK):
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(body)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(path)
