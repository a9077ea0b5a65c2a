"""Plans that were saved to be applied later: the change, and its effects as they were shown.

A saved plan is a file of the person who made it, in `$XDG_STATE_HOME/reconciler/plans`. Its id is a digest of its content,
so it names one change of one revision, and the same change twice is the same plan.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from reconciler.errors import Refused
from reconciler.source.yaml.beside import is_manifest
from reconciler.source.yaml.pieces import Beside
from reconciler.wire import answers

VERSION = 1
ID_CHARACTERS, ID_CHARACTERS_MIN = 12, 4
KEPT_MAX = 50
"""Most plans to keep: for one more, the oldest is removed."""
LINES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A change, not yet made."""

    cluster: str
    """The home or the context that it is for."""
    base: str | None
    """The commit of ``main`` that it changes; None for the first one."""
    changes: Mapping[str, str | None]
    """Files to write, in base64; None removes one."""
    message: str
    effects: tuple[str, ...]
    """The shown effects, in lines that do not depend on the time: sorted, each once."""

    @property
    def id(self) -> str:
        text = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.sha256(text).hexdigest()[:ID_CHARACTERS]

    def files(self) -> dict[str, bytes | None]:
        return {name: None if text is None else _read(name, text) for name, text in self.changes.items()}


def planned(
    cluster: str, base: str | None, changes: Mapping[str, bytes | None], message: str, body: answers.Foreseen
) -> SavedPlan:
    """Return the plan of a change that the controller has previewed (``wire.admin.Preview``)."""
    texts = {
        name: None if content is None else base64.b64encode(content).decode()
        for name, content in changes.items()
    }
    return SavedPlan(cluster, base, texts, message, effects(body))


def effects(body: answers.Foreseen) -> tuple[str, ...]:
    """Return the effects of a change, without waits, times and estimates, which differ from moment to moment."""
    plan = body["plan"]
    lines = {f"- {name}" for name in body["removes"]}
    lines |= {"! the commit would be held"} if body["held"] else set()
    lines |= {"! the cluster is suspended"} if body.get("suspended") else set()
    lines |= {f"* {change['object']}: {change['kind']}" for change in body.get("changes", ())}
    lines |= {f"+ {step['object']}: {step['step']}" for step in plan["steps"]}
    lines |= {f"! {refused['object']}: {refused['reason']}" for refused in plan["refused"]}
    return tuple(sorted(lines))


def save(plan: SavedPlan) -> None:
    """Keep a plan that only its owner can read. Raises ``OSError``."""
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=".plan-", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"version": VERSION, **asdict(plan)}, file)
    Path(draft).replace(folder / f"{plan.id}.json")
    for old in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-KEPT_MAX]:
        old.unlink(missing_ok=True)


def read(prefix: str, cluster: str) -> SavedPlan:
    """Return the plan whose id begins with ``prefix``.

    Raises ``Refused`` if there is none, if it cannot be read, and if it is for another cluster.
    """
    found = [path for path in _folder().glob("*.json") if path.stem.startswith(prefix)]
    if len(prefix) < ID_CHARACTERS_MIN or len(found) != 1:
        known = sorted(path.stem for path in _folder().glob("*.json"))
        text = f"the saved ones are {', '.join(known[-LINES_SHOWN:])}" if known else "none is saved"
        raise Refused(
            "NoPlan", f"no saved plan is {prefix!r}; {text}; save one with: reconciler plan -f DIR --save"
        )
    try:
        body = json.loads(found[0].read_text(encoding="utf-8"))
        if body.pop("version") != VERSION:
            raise ValueError("another version wrote it")
        plan = SavedPlan(**{**body, "effects": tuple(body["effects"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused("NoPlan", f"{found[0]} cannot be read ({error}); save the plan again") from error
    if plan.cluster != cluster:
        raise Refused("OtherCluster", f"plan {plan.id} is for {plan.cluster}, and this is {cluster}")
    return plan


def forget(plan: SavedPlan) -> None:
    (_folder() / f"{plan.id}.json").unlink(missing_ok=True)


def differences(plan: SavedPlan, now: tuple[str, ...]) -> str:
    """Return in lines the differences between the plan's effects now and the shown ones; empty if there are none."""
    gone = [f"no longer: {line}" for line in plan.effects if line not in now]
    new = [f"new:       {line}" for line in now if line not in plan.effects]
    lines = [*gone, *new]
    hidden = len(lines) - LINES_SHOWN
    return "\n  ".join(lines[:LINES_SHOWN] + ([f"and {hidden} more"] if hidden > 0 else []))


def _read(name: str, text: str) -> bytes:
    content = base64.b64decode(text)
    return content if is_manifest(name, content) else Beside(content)


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "reconciler" / "plans"
