"""One step of the batch, done alike on every rank of the group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from reconciler.runner.model.adapter import PREFILL_TOKENS, Generator, Read, Token, ending_of
from reconciler.runner.process.ending import RankEnd
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.group import Step
from reconciler.wire.launch import ExitCode

from .measure import Gauge, Paces
from .sampling import sampler


class Batch:
    """The sequences that a rank decodes. Equal steps give equal tokens on every rank."""

    def __init__(self, generator: Generator, progress: ProgressPipe, gauge: Gauge | None = None) -> None:
        self.paces: Paces | None = None
        """Measurements of the last step that requested them."""
        self._gauge = gauge
        self._generator = generator
        self._progress = progress
        self._steps = 0
        self._inserted = 0
        self._live: set[int] = set()
        self._unread: dict[int, int] = {}
        """Tokens of each prompt that no step has read yet."""
        self._reading = 0

    @property
    def live(self) -> int:
        """Return the number of sequences that were inserted and neither ended nor removed."""
        return len(self._live)

    @property
    def next_step(self) -> int:
        """Return the number that the next ``Step`` must have."""
        return self._steps

    @property
    def next_uid(self) -> int:
        """Return the uid of the next insertion."""
        return self._inserted

    def run(self, step: Step) -> tuple[list[Read], list[Token]]:
        """Do a step. Raises ``RankEnd``: ``DIVERGED``, ``PEER_LOST`` or ``MEMORY``."""
        self._check(step)
        with known_endings():
            read, tokens = self._do(step)
        self._steps += 1
        self._live.difference_update(token.uid for token in tokens if token.ended)
        self._progress.step(len(tokens))
        return read, tokens

    def settle(self) -> None:
        """Wait until this rank owes the others no part in a collective. Raises like ``run``."""
        with known_endings():
            self._generator.settle()

    def _check(self, step: Step) -> None:
        if step.number != self._steps or not self._live.issuperset(step.remove):
            raise RankEnd(
                ExitCode.DIVERGED,
                f"this rank is at step {self._steps} with sequences {sorted(self._live)}, rank 0 asked for "
                f"step {step.number} without sequences {list(step.remove)}",
            )

    def _do(self, step: Step) -> tuple[list[Read], list[Token]]:
        if step.gauging is not None and self._gauge is not None:
            self._generator.settle()  # collectives of both must not mix
            self.paces = self._gauge.measure(step.gauging, self._progress.step)
        if step.remove:
            self._generator.remove(step.remove)
            self._live.difference_update(step.remove)
        for insertion in step.insert:
            choice = sampler(insertion.sampling, insertion.position)
            uid = self._generator.insert(insertion.prompt, insertion.tokens_max, choice)
            self._live.add(uid)
            self._unread[uid] = len(insertion.prompt)
            self._inserted = uid + 1
        self._report_prefill()
        read, tokens = self._generator.step()
        self._unread.update((part.uid, part.total - part.done) for part in read)
        self._unread = {uid: left for uid, left in self._unread.items() if left > 0 and uid in self._live}
        return read, tokens

    def _report_prefill(self) -> None:
        """Report the tokens that this step reads, and those that the last step may not have finished."""
        before, self._reading = self._reading, min(PREFILL_TOKENS, sum(self._unread.values()))
        self._progress.reading(before + self._reading)


@contextlib.contextmanager
def known_endings() -> Iterator[None]:
    """Convert MLX's errors into ends of ranks; unexpected errors stay unchanged."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        known = ending_of(error)
        if known is None:
            raise
        raise known from error
    except MemoryError:
        raise RankEnd(ExitCode.MEMORY, "this node has too little memory for the batch") from None
