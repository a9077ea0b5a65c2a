"""Writes the git hooks of the cluster repository: ``hook_client.py``, plain Python that imports nothing of the product,
and the scripts that start it."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from reconciler.wire import SPOKEN

CONTROLLER_SOCKET = "controller.sock"
"""Name of the controller's socket, beside the repository in the reconciler's home."""

CHECKED = "checked"
"""Folder within that of the hooks: those for a push that the pusher has validated himself."""

CLIENT = "push.py"
"""File within the folder of the hooks: what they run."""

_HOOK = """\
#!/bin/sh
# Written by reconciler at each start: {purpose}.
[ -x {python} ] || {{
  {missing}
}}
exec {python} -I -S {client} {hook} {arguments}
"""


def command() -> tuple[str, ...]:
    """Return the command that validates a push with this installation, whatever the pusher's environment is."""
    root = Path(__file__).absolute().parents[3]
    module = "reconciler.source.hook"
    return ("/usr/bin/env", f"PYTHONPATH={root}", sys.executable, "-P", "-m", module, "pre-receive")


def install(folder: Path, hook_command: Sequence[str]) -> None:
    """Write the hooks that are missing or differ, each atomically. ``hook_command`` validates where nobody answers."""
    (folder / CHECKED).mkdir(parents=True, exist_ok=True)
    gone = f'echo "reconciler: {sys.executable} is gone; start the reconciler once to renew this hook" >&2; exit 1'
    told = _hook(folder, "post-receive", "tells the controller of a push", "exit 0", ())
    bodies = {
        "pre-receive": _hook(folder, "pre-receive", "judges a push", gone, hook_command),
        "post-receive": told,
        f"{CHECKED}/post-receive": told,
        CLIENT: Path(__file__).with_name("hook_client.py").read_text(encoding="utf-8"),
    }
    for name, body in bodies.items():
        _write(folder / name, body)


def _hook(folder: Path, hook: str, purpose: str, missing: str, fallback: Sequence[str]) -> str:
    """Return the script of a hook. ``missing`` is what it does without its Python."""
    return _HOOK.format(
        purpose=purpose,
        python=shlex.quote(sys.executable),
        missing=missing,
        client=f"{folder.name}/{CLIENT}",  # git runs hooks in the repository
        hook=hook,
        arguments=shlex.join((f"../{CONTROLLER_SOCKET}", json.dumps(list(SPOKEN)), *fallback)),
    )


def _write(path: Path, body: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == body and os.access(path, os.X_OK):
        return
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(body)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(path)
