"""One step of the batch, done alike on every rank of the group."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from reconciler.runner.group.known_sums import BUFFERS, check_sum
from reconciler.runner.model.adapter import ending_of
from reconciler.runner.model.agreed_batch import Choice, Constraint
from reconciler.runner.model.caches import Cache, first_part
from reconciler.runner.model.generator import Generator, Read, Token
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.group import Insertion, Prefix, Reading, Step
from reconciler.wire.launch import ExitCode, RankEnd

from .adjustment import adjustment
from .measure import Gauge, Paces
from .sampling import sampler


@dataclasses.dataclass(frozen=True)
class Own:
    """Facts about a sequence that only rank 0 knows, because no other rank's steps depend on them."""

    likeliest: int | None = None
    """``Choice.likeliest``."""
    constraint: Constraint | None = None
    scores: int | None = None
    """``Choice.scores``."""


UNKNOWN = Own()


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
        self._held: dict[int, int] = {}
        """Tokens in the cache of each sequence that is live or has ended in the last step."""
        self._entries: dict[Prefix, Cache] = {}
        """The prefix cache. Only rank 0 knows which tokens are in it."""

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
        return self._inserted

    def run(self, step: Step, own: Mapping[int, Own] | None = None) -> tuple[list[Read], list[Token]]:
        """Do a step. Raises ``RankEnd``: ``DIVERGED``, ``PEER_LOST`` or ``MEMORY``.

        ``own`` has, by sequence, what only rank 0 knows of those that are inserted.
        """
        self._check(step)
        with known_endings():
            read, tokens = self._do(step, own or {})
        self._steps += 1
        self._live.difference_update(token.uid for token in tokens if token.ended)
        self._progress.step(len(tokens))
        return read, tokens

    def settle(self) -> None:
        """Wait until this rank owes the others no part in a collective. Raises like ``run``."""
        with known_endings():
            self._generator.settle()

    def _check(self, step: Step) -> None:
        entries = self._entries.keys() - set(step.forget) | set(step.keep)
        if not (
            self._entries.keys() >= set(step.forget)
            and all(1 <= name.length <= self._held.get(name.uid, 0) for name in step.keep)
            and all(_is_covered(insertion, entries) for insertion in step.insert)
        ):
            raise RankEnd(
                ExitCode.DIVERGED,
                f"this rank has {len(self._entries)} prefixes and sequences of {self._held} tokens, rank 0 asked to "
                f"forget {list(step.forget)}, keep {list(step.keep)} and reuse "
                f"{[insertion.reuse for insertion in step.insert if insertion.reuse]}",
            )
        unread = dict(self._unread)
        for number, insertion in enumerate(step.insert, self._inserted):
            unread[number] = len(insertion.prompt)
        if not all(_can_be_read(reading, unread) for reading in step.read):
            raise RankEnd(
                ExitCode.DIVERGED,
                f"this rank has prompts with {unread} tokens left, rank 0 asked to read {list(step.read)}",
            )
        if step.number != self._steps or not self._live.issuperset(step.remove):
            raise RankEnd(
                ExitCode.DIVERGED,
                f"this rank is at step {self._steps} with sequences {sorted(self._live)}, rank 0 asked for "
                f"step {step.number} without sequences {list(step.remove)}",
            )

    def _do(self, step: Step, own: Mapping[int, Own]) -> tuple[list[Read], list[Token]]:
        if step.gauging is not None and self._gauge is not None:
            self._generator.settle()  # collectives of both must not mix
            self.paces = self._gauge.measure(step.gauging, self._progress.step)
        self._keep(step)
        if step.remove:
            self._generator.remove(step.remove)
            self._live.difference_update(step.remove)
        self._held = {uid: held for uid, held in self._held.items() if uid in self._live}
        for insertion in step.insert:
            self._insert(insertion, own.get(self._inserted, UNKNOWN))
        self._report_reading(step.read)
        read, tokens = self._generator.step(step.read)
        for part in read:
            self._held[part.uid] += part.done - part.before
            self._unread[part.uid] = part.total - part.done
        for token in tokens:
            self._held[token.uid] += 1
        self._unread = {uid: left for uid, left in self._unread.items() if left > 0 and uid in self._live}
        return read, tokens

    def _keep(self, step: Step) -> None:
        for name in step.forget:
            del self._entries[name]
        for name in step.keep:
            self._entries[name] = self._generator.kept(name.uid, self._held[name.uid] - name.length)

    def _insert(self, insertion: Insertion, own: Own) -> None:
        choice = Choice(
            sampler(insertion.sampling, insertion.position),
            adjustment(insertion, self._generator.end_ids),
            own.constraint,
            own.likeliest,
            own.scores,
        )
        read = None
        if insertion.reuse:
            read = first_part(self._entries[insertion.reuse], insertion.reuse.length - insertion.reused)
        uid = self._generator.insert(
            insertion.prompt, insertion.tokens_max, choice, read, insertion.ending, insertion.scored
        )
        self._live.add(uid)
        self._held[uid] = insertion.reused
        self._unread[uid] = len(insertion.prompt)
        self._inserted = uid + 1

    def _report_reading(self, readings: Sequence[Reading]) -> None:
        """Report the tokens that this step reads, and those that the last step may not have finished."""
        before = self._reading
        self._reading = sum(one.tokens or sum(self._unread[uid] for uid in one.uids) for one in readings)
        self._progress.reading(before + self._reading)


def _can_be_read(reading: Reading, unread: Mapping[int, int]) -> bool:
    left = [unread.get(uid, 0) for uid in reading.uids]
    if reading.tokens:
        return len(left) == 1 and 1 <= reading.tokens < left[0]
    return bool(left) and min(left) > 0 and reading.lane >= 0


def _is_covered(insertion: Insertion, entries: Set[Prefix]) -> bool:
    if insertion.reuse is None:
        return not insertion.reused
    return insertion.reuse in entries and 1 <= insertion.reused <= insertion.reuse.length


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


@dataclasses.dataclass
class Pulse:
    """A sum in a group that nobody asks anything: queue pairs that are not used for long decay."""

    group: Any
    """An ``mx.distributed.Group``."""
    seconds: float
    """The time without a step after which it is done."""
    beats: int = 0
    """The number of times it was done."""

    def beat(self) -> None:
        """Do it, as all ranks do now, through other buffers each time. Raises ``RankEnd`` where the network fails or the sum
        is wrong; hangs where that hangs."""
        with known_endings():
            check_sum(self.group, BUFFERS[self.beats % len(BUFFERS)], self.beats)
        self.beats += 1
