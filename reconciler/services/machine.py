"""The facts about this machine that the service of a home needs, and the execution of its actions."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from reconciler.errors import Invalid, Refused
from reconciler.remote.bootstrap.actions import Action, Build, Write
from reconciler.service_managers.definitions import Keeper

from .up_service import Machine

SUDO_SECONDS = 10.0
ACTION_SECONDS = 60.0
"""Time for an action: a service manager that stops a service waits for it."""
_WORDS_MAX = 2000


def this_machine(of_user: bool) -> Machine:
    """Return this machine. ``of_user``: for a service of the user's own systemd. Raises ``Invalid`` if it has no such
    service manager."""
    if "SUDO_USER" in os.environ:
        raise Invalid("type it as the user who owns the cluster, without sudo: what needs root is asked for")
    return Machine(
        getpass.getuser(), os.getuid(), PurePosixPath(Path.home()), _keeper(of_user), _administrator()
    )


def _keeper(of_user: bool) -> Keeper:
    if sys.platform == "darwin":
        if of_user:
            raise Invalid(
                "on a Mac the service is a LaunchDaemon: what a user's session starts may not use the local network"
                " before somebody allows it; omit --user"
            )
        return Keeper.LAUNCHD
    if of_user:
        folder = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
        if Path(folder, "systemd").exists():
            return Keeper.SYSTEMD_OF_USER
        raise Invalid(f"there is no systemd of this user in {folder}; log in as the user, or omit --user")
    if Path("/run/systemd/system").is_dir():
        return Keeper.SYSTEMD
    raise Invalid("there is neither launchd nor systemd here; keep this running: reconciler up")


def _administrator() -> str:
    if os.geteuid() == 0:
        return "root"
    if shutil.which("sudo") is None:
        return ""
    return "sudo" if succeeds(("sudo", "-n", "true")) else ""


def succeeds(question: tuple[str, ...]) -> bool:
    """Return whether a command ends with 0. Raises ``OSError``."""
    asked = subprocess.run(question, capture_output=True, timeout=SUDO_SECONDS, check=False)
    return asked.returncode == 0


def content(path: Path | PurePosixPath) -> str | None:
    """Return the content of a file; empty if this user may not read it, None if it does not exist."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except PermissionError:
        return ""
    except FileNotFoundError:
        return None


def carry_out(action: Action) -> None:
    """Carry out one action. Raises ``Refused`` (``MeasureFailed``) with the output, and ``OSError``."""
    act = action.act
    assert not isinstance(act, Build)
    if isinstance(act, Write):
        path = Path(act.path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.new")
        draft.write_bytes(act.content)
        draft.chmod(act.mode)
        draft.rename(path)
        return
    done = subprocess.run(
        act.argv,
        input=act.content,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=ACTION_SECONDS,
        check=False,
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip()[-_WORDS_MAX:] or f"exit status {done.returncode}"
        raise Refused("MeasureFailed", f"{action.why}: {words}")
