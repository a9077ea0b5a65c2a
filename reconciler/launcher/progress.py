"""The progress pipe: one line of JSON per ``Progress``, written without ever waiting for the shim."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from typing import Optional

from reconciler.wire.codec import to_wire
from reconciler.wire.launch import Phase, Progress

DETAIL_CHARACTERS_MAX = 800


class ProgressPipe:
    """Reports progress to the shim. Without a descriptor (a launcher started by hand) nothing is written."""

    def __init__(self, descriptor: Optional[int]) -> None:
        self._descriptor = descriptor
        self._now = Progress(Phase.STARTING)
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
            os.set_blocking(descriptor, False)

    def enter(self, phase: str, detail: str = "") -> None:
        """Report a phase with a sentence for people."""
        self._write(dataclasses.replace(self._now, phase=phase, detail=detail[:DETAIL_CHARACTERS_MAX]))

    def explain(self, detail: str) -> None:
        """Report why the rank is about to end."""
        self.enter(self._now.phase, detail)

    def program_ended(self, detail: str = "") -> None:
        """Report that the end of this process will be the program's."""
        self._write(dataclasses.replace(self._now, detail=detail[:DETAIL_CHARACTERS_MAX], program=True))

    def _write(self, progress: Progress) -> None:
        self._now = progress
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # a shim that is gone ends this process anyway
                os.write(self._descriptor, json.dumps(to_wire(progress)).encode() + b"\n")
