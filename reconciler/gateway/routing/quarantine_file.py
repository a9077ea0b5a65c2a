"""The file of quarantined prompts. The gateway continues with it after a restart, and the controller reads it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reconciler.gateway import state_file
from reconciler.wire import SPOKEN
from reconciler.wire.codec import to_wire
from reconciler.wire.prompts import QuarantinedPrompt, QuarantinedPrompts


def read(path: Path) -> tuple[QuarantinedPrompt, ...]:
    """Return the prompts in the file; none without a valid file."""
    file = state_file.read(path, QuarantinedPrompts, "no prompt is quarantined")
    return file.prompts if file is not None else ()


def write(path: Path, prompts: Iterable[QuarantinedPrompt]) -> None:
    """Replace the file atomically, readable to its owner only. A full disk is no reason to stop serving."""
    state_file.replace(path, to_wire(QuarantinedPrompts(SPOKEN[-1], tuple(prompts))), later="")
