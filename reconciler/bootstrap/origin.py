"""Distinguishes a home from a copy of it, which must not act as the home.

``home.json`` has the path of the home, its machine and file system, and an id that a copy shares. A home that was
moved, or that another path leads to, is the same and continues by itself; so does a home that was put back in its
place. A copy is refused while its original exists: it would take the original's machines and messages for its own.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import secrets
import shlex
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from reconciler.errors import Conflict
from reconciler.services.lock import holder

log = logging.getLogger(__name__)

NAME = "home.json"
_LOCKS = ("up.lock", "controller.lock", "gateway.lock", "console.lock")
_ADVICE = (
    " Nothing was started, and nothing of the other was touched. To go on here, {go_on}. For a separate cluster, begin with an empty"
    " home: reconciler --home DIR up -f MANIFESTS"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a home."""

    id: str
    path: str
    place: str
    """Its file system and inode, which differ in every copy."""
    machine: str
    name: str
    """The name of the machine, for people."""


def settle(root: Path) -> None:
    """Write down the place of this home. Raises ``Conflict`` if it is a copy of another home."""
    known = _read(root)
    here = _here(root, known.id if known else secrets.token_hex(16))
    if here == known:
        return
    other = _other(root, here, known) or _started_elsewhere(root, known)
    if other:
        raise Conflict(other)
    _write(root, here)
    if known is not None and known.path != here.path:
        log.info("this home was at %s on %s, and is at %s now", known.path, known.name, here.path)


def _other(root: Path, here: Origin, known: Origin | None) -> str:
    """Return why this is a copy; empty if it is the home itself, which may have been moved."""
    if known is None:
        return ""
    there = Path(known.path)
    if known.machine == here.machine:
        beside = _read(there)
        if beside is None or beside.id != known.id or _same(there, root):
            return ""
        return f"{root} is a copy of {there}, which is still there." + _ADVICE.format(
            go_on=f"end what runs in {there} with Ctrl-C, and remove or rename that folder"
        )
    if known.place == here.place:  # one disk, two machines
        user = next((lock for lock in _LOCKS if holder(root / lock) is not None), "")
        return f"{root} is in use on {known.name} ({user} is held there); end it there first" if user else ""
    if not (root / "addresses.json").exists():  # the file of machines that were reached over SSH
        return ""
    return (
        f"{root} was at {known.path} on {known.name}, whose controller may still use the same machines."
        + _ADVICE.format(go_on=f"if nothing runs there any more: rm {shlex.quote(str(root / NAME))}")
    )


def _started_elsewhere(root: Path, known: Origin | None) -> str:
    """Return why a home without ``home.json`` is a copy; empty if it is none. An older version, which wrote no such
    file, ran in the original when it was copied, and its lock has the command."""
    if known is not None:
        return ""
    with suppress(OSError, ValueError):
        words = shlex.split((root / "controller.lock").read_text(encoding="utf-8"))
        there = Path(words[words.index("--home") + 1])
        if there.is_absolute() and (there / "cluster.git").is_dir() and not _same(there, root):
            return f"{root} is a copy of {there}, which is still there." + _ADVICE.format(
                go_on=f"remove or rename {there}, or rm {shlex.quote(str(root / 'controller.lock'))}"
            )
    return ""


def _here(root: Path, id: str) -> Origin:
    status, system = root.stat(), os.statvfs(root)
    return Origin(id, str(root.resolve()), f"{system.f_fsid}:{status.st_ino}", _machine(), platform.node())


def _machine() -> str:
    """Return an id of this machine: systemd's, or the address of its first network card, which Macs keep."""
    with suppress(OSError):
        found = Path("/etc/machine-id").read_text("ascii").strip()
        if re.fullmatch(r"[0-9a-f]{32}", found):
            return found
    return f"{uuid.getnode():012x}" if not uuid.getnode() >> 40 & 1 else platform.node()


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return False


def _read(root: Path) -> Origin | None:
    try:
        said = json.loads((root / NAME).read_bytes())
        return Origin(**{name: str(said[name]) for name in Origin.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(root: Path, here: Origin) -> None:
    draft = root / f".{NAME}.{os.getpid()}.new"
    try:
        draft.write_text(json.dumps({"version": 1, **asdict(here)}) + "\n", encoding="utf-8")
        draft.replace(root / NAME)
    except OSError as error:  # a full disk stops nothing that serves
        log.warning("%s cannot be written: %s", root / NAME, error)
