"""The gateway's JSON files in its home, which the controller reads: replaced atomically, and read with their version."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TypeVar

import orjson

from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.keys import KeysUsage
from reconciler.wire.prompts import QuarantinedPrompts

log = logging.getLogger(__name__)

T = TypeVar("T", KeysUsage, QuarantinedPrompts)


def read(path: Path, kind: type[T], loss: str) -> T | None:
    """Return the contents; None without a valid file. ``loss``: the consequence, for the log."""
    try:
        file = from_wire(kind, orjson.loads(path.read_bytes()))
        if file.version not in SPOKEN:
            raise WireError(f"version {file.version}; this gateway reads {SPOKEN}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, WireError) as error:
        log.warning("%s is ignored, %s: %s", path, loss, error)
        return None
    return file


def replace(path: Path, body: object, mode: int = 0o600, later: str = ", trying again later") -> bool:
    """Replace a file atomically. Returns False if that failed: a full disk is no reason to stop serving. ``later``: when it
    is tried again, for the log."""
    draft = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE))
        draft.replace(path)
    except OSError as error:
        log.warning("cannot write %s%s: %s", path, later, error)
        return False
    return True
