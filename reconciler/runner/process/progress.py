"""The progress pipe: one line of JSON per ``Progress``, written without ever waiting for the reader."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
import time
from typing import Any

from reconciler.wire.launch import Phase, Progress, TransportProof

log = logging.getLogger("reconciler.runner")

INTERVAL_SECONDS = 0.1
"""Shortest time between reports while working; changes of phase are reported at once."""
DETAIL_CHARACTERS_MAX = 800


class ProgressPipe:
    """Reports progress to the shim. Safe to call from every thread; a thread of its own writes.

    Without a descriptor (a rank started by hand) nothing is written.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._now: dict[str, Any] = dataclasses.asdict(Progress(phase=Phase.STARTING))
        """By the names of ``Progress``: the fields change several times a step, and are told a few times a second."""
        self._unsent = b""
        self._changed = threading.Event()
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
            os.set_blocking(descriptor, False)
            threading.Thread(target=self._write_changes, name="progress", daemon=True).start()

    @property
    def phase(self) -> str:
        return str(self._now["phase"])

    @property
    def step_tokens(self) -> int:
        return int(self._now["step_tokens"])

    def enter(self, phase: str, detail: str = "") -> None:
        """Report a new phase now, in the rank's log as well: that is what people follow."""
        log.info("%s%s", phase, f": {detail}" if detail else "")
        verbs = self._now["verbs"] or phase == Phase.VERBS
        self._set(phase=phase, detail=detail[:DETAIL_CHARACTERS_MAX], verbs=verbs)
        self._write()

    def report_detail(self, detail: str) -> None:
        """Report a sentence for people now, in the same phase."""
        self._set(detail=detail[:DETAIL_CHARACTERS_MAX])
        self._write()

    def step(self, tokens: int = 0) -> None:
        """Count a decode step or prefill chunk, and the tokens that it generated."""
        with self._lock:
            self._now["steps"] += 1
            self._now["tokens"] += tokens
        self._tell()

    def reading(self, tokens: int) -> None:
        """Report how many tokens of prompts are being read."""
        self._set(step_tokens=tokens)

    def demand(self, count: int) -> None:
        """Report how many requests wait or run."""
        self._set(demand=count)

    def loaded(self, done: int, total: int) -> None:
        """Report how many bytes of this rank's weights are in memory."""
        self._set(loaded_bytes=done, total_bytes=total)

    def proven(self, proof: TransportProof) -> None:
        """Report what was found to be right over the group's transport."""
        self._set(proof=dataclasses.asdict(proof))

    def _set(self, **changes: object) -> None:
        with self._lock:
            if all(self._now[name] == value for name, value in changes.items()):
                return
            self._now.update(changes)
        self._tell()

    def _tell(self) -> None:
        if not self._changed.is_set():
            self._changed.set()

    def _write_changes(self) -> None:
        while self._changed.wait():
            self._write()
            time.sleep(INTERVAL_SECONDS)

    def _write(self) -> None:
        if self._descriptor is None:
            return
        with self._lock:
            self._changed.clear()
            begun = bool(self._unsent)
            line = self._unsent or (json.dumps(self._now, separators=(",", ":")) + "\n").encode()
            try:
                written = os.write(self._descriptor, line)
            except BlockingIOError:
                written = 0
            except OSError:
                return  # the shim is gone: the watch ends this rank
            # A full pipe takes part of a line: the rest of it comes first when there is room again.
            self._unsent = line[written:] if begun or written else b""
            if begun or written < len(line):
                self._changed.set()
