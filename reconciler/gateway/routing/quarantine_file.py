"""The file of quarantined prompts. The gateway continues with it after a restart, and the controller reads it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import orjson

from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, from_wire, to_wire
from reconciler.wire.prompts import QuarantinedPrompt, QuarantinedPrompts

log = logging.getLogger(__name__)


def read(path: Path) -> tuple[QuarantinedPrompt, ...]:
    """Return the prompts in the file; none without a valid file."""
    try:
        file = from_wire(QuarantinedPrompts, orjson.loads(path.read_bytes()))
        if file.version not in SPOKEN:
            raise WireError(f"version {file.version}; this gateway reads {SPOKEN}")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, WireError) as error:
        log.warning("%s is ignored, no prompt is quarantined: %s", path, error)
        return ()
    return file.prompts


def write(path: Path, prompts: Iterable[QuarantinedPrompt]) -> None:
    """Replace the file atomically, readable to its owner only. A full disk is no reason to stop serving."""
    draft = path.with_name(f".{path.name}.new")
    body = orjson.dumps(
        to_wire(QuarantinedPrompts(SPOKEN[-1], tuple(prompts))), option=orjson.OPT_APPEND_NEWLINE
    )
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        draft.replace(path)
    except OSError as error:
        log.warning("cannot write %s: %s", path, error)
