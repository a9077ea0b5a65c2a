"""Asks the node's runtime what it can do with a model, until it has answered for the state of the model's folder.

The standby process answers, because only the program of ranks uses the installed mlx-lm (``runner/examination.py``). If it
gives no answer, it is asked again, each time after a longer wait and with more time.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.launch import UNANSWERED
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import FailedExamination, RankShare

from .files import Weights, mark
from .runtime import Question, versions

VERIFIED = "verified"
AGAIN_SECONDS = (30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
"""Waits after one failed examination, two, and so on; the last one stays."""
EXAMINATION_SECONDS = 120.0
"""Time for the first examination: imports, and a large model's headers from a cold disk."""
EXAMINATION_SECONDS_MAX = 600.0
"""Each further one may take twice as long as the one before, but no longer than this: other weights wait meanwhile."""
_KEPT_MAX = 256
_log = logging.getLogger("agent")

Subject = Tuple[str, str]
"""Folder, and mark of its state."""


class Runtime(Protocol):
    """A runtime that can examine weights."""

    def prepare(self) -> None:
        """Get ready: there is something to examine soon."""

    def prepared(self) -> None:
        """Wait no longer than usual from now on: an examination is requested now, or never."""

    def examine(self, folder: str, seconds: float, on_answer: Callable[[Mapping[str, Any]], None]) -> None:
        """Examine the weights in ``folder``; ``on_answer`` is called once, with ``UNANSWERED`` alone if that fails, or takes
        longer than ``seconds``. One folder at a time."""


@dataclasses.dataclass(frozen=True)
class _Failed:
    """The report of failed examinations, and the time of the next by the monotonic clock."""

    report: FailedExamination
    due: float


class Examiner:
    """Asks about one model at a time. ``on_answer`` is called when there is something new to report."""

    def __init__(
        self, runtime: Runtime, on_answer: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``clock`` is monotonic."""
        self._runtime = runtime
        self._on_answer = on_answer
        self._clock = clock
        self._answers: Dict[Subject, Mapping[str, Any]] = {}
        self._failed: Dict[Subject, _Failed] = {}
        self._queue: List[Subject] = []
        self._asking = False
        self._closed = False

    def complete(self, report: ModelReport) -> ModelReport:
        """Return the report completed by the runtime's answer; request missing answers. Weights without an answer are being
        examined until the first attempt has failed. Then they can be used without one."""
        if not report.present or report.problem:
            return report
        try:
            # Verified weights are those of their commit, whichever of its files are already complete here.
            state = VERIFIED if report.verified else mark(Path(report.directory))
            subject = (report.directory, state)
        except OSError as error:
            return dataclasses.replace(report, problem=str(error))
        if subject not in self._answers and self._is_due(subject):
            self._enqueue(subject)
            self._ask()
        answer, failed = self._answers.get(subject), self._failed.get(subject)
        if answer is None:
            return dataclasses.replace(
                report, examining=failed is None, examination=failed.report if failed else None
            )
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
        self._closed = True

    def _is_due(self, subject: Subject) -> bool:
        failed = self._failed.get(subject)
        return failed is None or self._clock() >= failed.due

    def _enqueue(self, subject: Subject) -> None:
        """Queue a model; for a folder that changes, only the newest state matters."""
        begun = self._queue[:1] if self._asking else []
        others = [known for known in self._queue[len(begun) :] if known[0] != subject[0]]
        self._queue = begun + others + ([] if subject in begun else [subject])

    def _ask(self) -> None:
        if not self._asking and self._queue and not self._closed:
            self._asking = True
            failed = self._failed.get(self._queue[0])
            longer = 2 ** min(failed.report.attempts, 8) if failed else 1
            seconds = min(EXAMINATION_SECONDS * longer, EXAMINATION_SECONDS_MAX)
            self._runtime.examine(self._queue[0][0], seconds, self._take_answer)

    def _take_answer(self, answer: Mapping[str, Any]) -> None:
        if self._closed:
            return
        subject = self._queue.pop(0)
        self._asking = False
        for known in (self._answers, self._failed):
            if len(known) >= _KEPT_MAX:
                known.clear()
        if UNANSWERED in answer:
            self._failed[subject] = self._failure(subject, str(answer[UNANSWERED]))
        else:
            self._failed.pop(subject, None)
            self._answers[subject] = answer
        self._on_answer()
        self._ask()

    def _failure(self, subject: Subject, text: str) -> _Failed:
        before: Optional[_Failed] = self._failed.get(subject)
        attempts = before.report.attempts + 1 if before else 1
        wait, now = AGAIN_SECONDS[min(attempts, len(AGAIN_SECONDS)) - 1], time.time()
        _log.warning(
            "%s: examination %d failed: %s; the next one in %.0f s", subject[0], attempts, text, wait
        )
        since = before.report.since if before else now
        return _Failed(FailedExamination(text, attempts, since, now + wait), self._clock() + wait)


class Software:
    """Asks the interpreter of the ranks in the background. ``on_change`` is called when more is known."""

    def __init__(self, python: str, models: Path, examining: Runtime, on_change: Callable[[], None]) -> None:
        self._python = python
        self._examining = examining
        self._on_change = on_change
        self._weights = Weights(models)
        self._examiner = Examiner(examining, on_change)
        self._requested: Optional[Question] = None
        self.runtime: Optional[Mapping[str, str]] = None
        """``NodeReport.runtime``."""

    def ask(self) -> None:
        self._requested = versions(self._python, self._know)
        self._requested.start()

    def _know(self, found: Mapping[str, str]) -> None:
        self.runtime = found
        self._examining.prepared()
        self._on_change()

    def model(self, path: str) -> ModelReport:
        """Return a report on the weights at ``path``, as far as known."""
        report = self._weights.report(path)
        if self.runtime is None:  # not known yet whether there is anything to ask
            examinable = report.present and not report.problem
            if examinable:
                self._examining.prepare()
            return dataclasses.replace(report, examining=examinable)
        return self._examiner.complete(report) if "mlx-lm" in self.runtime else report

    def close(self) -> None:
        if self._requested is not None:
            self._requested.withdraw()
        self._examiner.close()


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
