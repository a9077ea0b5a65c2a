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

from reconciler.errors import Invalid
from reconciler.wire import SPOKEN

from .process import run_git

CONTROLLER_SOCKET = "controller.sock"
"""Name of the controller's socket, next to the repository in the reconciler's home."""

CHECKED = "checked"
"""Subfolder of the hooks' folder: hooks for a push that the pusher has already validated."""

CLIENT = "push.py"
"""File in the hooks' folder: the program that they run."""

PUSH_BYTES_MAX = 256 * 1024 * 1024

SETTINGS = {
    "core.hooksPath": "hooks",  # explicit, because a global hooksPath would override the default
    "core.logAllRefUpdates": "true",
    "gc.auto": "6700",
    "gc.reflogExpire": "never",  # the log has the last commit of a lost branch
    "receive.advertisePushOptions": "true",
    "receive.fsckObjects": "true",
    "receive.maxInputSize": str(PUSH_BYTES_MAX),
}
"""Settings of every cluster repository."""

_HOOK = """\
#!/bin/sh
# Written by reconciler at each start: {purpose}.
[ -x {python} ] || {{
  {missing}
}}
exec {python} -I -S {client} {hook} {arguments}
"""


def command() -> tuple[str, ...]:
    """Return the command that validates a push with this installation, in any environment of the pusher."""
    root = Path(__file__).absolute().parents[3]
    module = "reconciler.source.hook"
    return ("/usr/bin/env", f"PYTHONPATH={root}", sys.executable, "-P", "-m", module, "pre-receive")


def mend(repository: Path, hook_command: Sequence[str]) -> list[str]:
    """Correct the settings and hooks of a bare repository: git silently skips a hook that is not executable, or not in
    ``core.hooksPath``. Return the names of the corrected ones. Raises ``Invalid`` and ``Unreachable``."""
    config = (f"--git-dir={repository}", "config", "--local")
    listed = run_git((*config, "--list", "-z")).decode("utf-8", "replace").split("\0")
    present = dict(entry.partition("\n")[::2] for entry in listed)
    wrong = [name for name, value in SETTINGS.items() if present.get(name.lower()) != value]
    for name in wrong:
        run_git((*config, "--replace-all", name, SETTINGS[name]))
    return [*wrong, *(f"hooks/{name}" for name in install(repository / "hooks", hook_command))]


def install(folder: Path, hook_command: Sequence[str]) -> list[str]:
    """Write the hooks that are missing, differ or are not executable, each atomically; return their names.

    ``hook_command`` validates if no controller answers. Raises ``Invalid`` if something else is in the place of a hook.
    """
    gone = f'echo "reconciler: {sys.executable} is gone; start the reconciler once to renew this hook" >&2; exit 1'
    told = _hook(folder, "post-receive", "tells the controller of a push", "exit 0", ())
    bodies = {
        "pre-receive": _hook(folder, "pre-receive", "judges a push", gone, hook_command),
        "post-receive": told,
        f"{CHECKED}/post-receive": told,
        CLIENT: Path(__file__).with_name("hook_client.py").read_text(encoding="utf-8"),
    }
    try:
        (folder / CHECKED).mkdir(parents=True, exist_ok=True)
        return [name for name, body in bodies.items() if _write(folder / name, body.encode())]
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        place = error.filename2 or error.filename
        raise Invalid(
            f"the hook {place} cannot be written: {error.strerror}; move away what is in its place"
        ) from None


def _hook(folder: Path, hook: str, purpose: str, missing: str, fallback: Sequence[str]) -> str:
    """Return the script of a hook. ``missing`` is its command for the case that its Python is missing."""
    return _HOOK.format(
        purpose=purpose,
        python=shlex.quote(sys.executable),
        missing=missing,
        client=f"{folder.name}/{CLIENT}",  # git runs hooks in the repository
        hook=hook,
        arguments=shlex.join((f"../{CONTROLLER_SOCKET}", json.dumps(list(SPOKEN)), *fallback)),
    )


def _write(path: Path, body: bytes) -> bool:
    """Write a hook, and return whether that was necessary."""
    if path.is_file() and path.read_bytes() == body and path.stat().st_mode & 0o111:
        return False
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True
