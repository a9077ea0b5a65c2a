"""Asks the node's runtime what it can do with a model, once for each state of the model's folder.

The standby process answers, because only what ranks run uses the installed mlx-lm (``runner/examination.py``).
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Protocol, Tuple

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.node import ModelReport, RankShare

from .files import mark

VERIFIED = "verified"
_KEPT_MAX = 256
_log = logging.getLogger("agent")

Subject = Tuple[str, str]
"""Folder, and mark of its state."""


class Runtime(Protocol):
    """What can examine weights."""

    def prepare(self) -> None:
        """Get ready: there is something to examine soon."""

    def prepared(self) -> None:
        """Wait no longer than usual from now on: what there is to examine is asked for now, or never."""

    def examine(self, folder: str, on_answer: Callable[[Mapping[str, Any]], None]) -> None:
        """Examine the weights in ``folder``; ``on_answer`` is called once, with an empty answer if that fails. One folder
        at a time."""


class Examiner:
    """Asks about one model at a time. ``on_answer`` is called when there is something new to report."""

    def __init__(self, runtime: Runtime, on_answer: Callable[[], None]) -> None:
        self._runtime = runtime
        self._on_answer = on_answer
        self._answers: Dict[Subject, Mapping[str, Any]] = {}
        self._queue: List[Subject] = []
        self._asking = False
        self._closed = False

    def complete(self, report: ModelReport) -> ModelReport:
        """Return the report completed by the runtime's answer; request missing answers."""
        if not report.present or report.problem:
            return report
        try:
            # Verified weights are those of their commit, whichever of its files are complete here by now.
            state = VERIFIED if report.verified else mark(Path(report.directory))
            subject = (report.directory, state)
        except OSError as error:
            return dataclasses.replace(report, problem=str(error))
        answer = self._answers.get(subject)
        if answer is None:
            self._enqueue(subject)
            self._ask()
            answer = self._answers.get(subject)  # at once, where the interpreter cannot be started
        if answer is None:
            return dataclasses.replace(report, examining=True)
        return dataclasses.replace(
            report,
            problem=str(answer.get("problem", "")),
            code=str(answer.get("code", "")),
            tools=str(answer.get("tools", "")),
            reuse=str(answer.get("reuse", "")),
            reread=str(answer.get("reread", "")),
            embeds=bool(answer.get("embeds", False)),
            rope=tuple(map(str, answer.get("rope", ()))),
            unsplittable=_texts(answer.get("unsplittable")),
            ranks_tried=int(answer.get("ranks_tried", 0)),
            shares=_shares(answer.get("shares")),
        )

    def close(self) -> None:
        """Ask no more."""
        self._closed = True

    def _enqueue(self, subject: Subject) -> None:
        """Queue a model; for a folder that changes, only the newest state matters."""
        begun = self._queue[:1] if self._asking else []
        others = [known for known in self._queue[len(begun) :] if known[0] != subject[0]]
        self._queue = begun + others + ([] if subject in begun else [subject])

    def _ask(self) -> None:
        if not self._asking and self._queue and not self._closed:
            self._asking = True
            self._runtime.examine(self._queue[0][0], self._take_answer)

    def _take_answer(self, answer: Mapping[str, Any]) -> None:
        if self._closed:
            return
        subject = self._queue.pop(0)
        self._asking = False
        if not answer:
            _log.warning("%s: its examination failed; its ranks will show what is wrong", subject[0])
        if len(self._answers) >= _KEPT_MAX:
            self._answers.clear()
        self._answers[subject] = answer
        self._on_answer()
        self._ask()


def _texts(value: Any) -> Mapping[str, str]:
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _shares(value: Any) -> Mapping[str, Tuple[RankShare, ...]]:
    """Return the shares from the runtime's answer; empty for any other answer."""
    if not isinstance(value, dict):
        return {}
    try:
        return {key: tuple(from_wire(RankShare, share) for share in shares) for key, shares in value.items()}
    except (WireError, TypeError):
        return {}
