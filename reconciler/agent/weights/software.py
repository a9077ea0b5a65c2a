"""The runtime of a node, and its examinations of weights, as far as known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Callable, Mapping, Optional

from reconciler.wire.node import ModelReport

from .examination import Examiner, Runtime
from .files import Weights
from .runtime import Question, versions


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
        """Begin."""
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
        """Ask no more."""
        if self._requested is not None:
            self._requested.withdraw()
        self._examiner.close()
