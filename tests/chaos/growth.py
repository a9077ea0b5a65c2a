"""Memory and descriptors of the processes that live as long as the cluster does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.processes import resident_bytes

WARM_SHARE = 0.3
WARM_SECONDS = 60.0
"""Of the whole time, and of the life of a process: what it takes while it fills its caches is no growth."""
SECONDS_MIN = 240.0
"""A process that was looked at for less long afterwards is not judged: agents are killed, and machines restarted."""
MEMORY_MIB_MAX = 1.0
"""In a minute."""
DESCRIPTORS_MAX = 0.5
"""In a minute."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process takes at one moment."""

    resident_bytes: int
    descriptors: int
    ranks: int = 0
    """That it looks after, each with descriptors of its own."""


@dataclass(slots=True)
class Growth:
    """Samples of every process, by what it is and its number."""

    samples: dict[tuple[str, int], list[tuple[float, Taken]]] = field(default_factory=dict)

    def sample(self, now: float, processes: Iterable[tuple[str, int, int]]) -> None:
        """Look at processes, each by what it is, its number, and how many ranks it looks after."""
        for name, pid, ranks in processes:
            if (now_taken := taken(pid, ranks)) is not None:
                self.samples.setdefault((name, pid), []).append((now, now_taken))

    def grown(self, begun_at: float, ended_at: float) -> list[Grown]:
        """Of each process that can be judged."""
        warm = begun_at + WARM_SHARE * (ended_at - begun_at)
        kept = {
            process: _alike([(at, t) for at, t in samples if at >= max(warm, samples[0][0] + WARM_SECONDS)])
            for process, samples in self.samples.items()
        }
        return [
            _grown(process, samples)
            for process, samples in sorted(kept.items())
            if samples and samples[-1][0] - samples[0][0] >= SECONDS_MIN
        ]


@dataclass(frozen=True, slots=True)
class Grown:
    """By how much a process grew in a minute."""

    name: str
    pid: int
    minutes: float
    """For how long it was looked at, warm."""
    resident_mib: float
    """At the end."""
    memory_mib: float
    descriptors: float
    """In a minute, as ``memory_mib``."""
    descriptors_open: int
    """At the end."""

    @property
    def grows(self) -> bool:
        """Whether it takes more and more."""
        return self.memory_mib > MEMORY_MIB_MAX or self.descriptors > DESCRIPTORS_MAX


def _alike(samples: Sequence[tuple[float, Taken]]) -> list[tuple[float, Taken]]:
    """Those with as many ranks as most have: a rank more is no growth."""
    counts = Counter(t.ranks for _, t in samples)
    return [(at, t) for at, t in samples if t.ranks == counts.most_common(1)[0][0]]


def _grown(process: tuple[str, int], samples: Sequence[tuple[float, Taken]]) -> Grown:
    last = samples[-1][1]
    return Grown(
        *process,
        minutes=(samples[-1][0] - samples[0][0]) / 60,
        resident_mib=last.resident_bytes / 2**20,
        memory_mib=slope([(at, t.resident_bytes / 2**20) for at, t in samples]),
        descriptors=slope([(at, t.descriptors) for at, t in samples]),
        descriptors_open=last.descriptors,
    )


def taken(pid: int, ranks: int = 0) -> Taken | None:
    """What a process of this user takes now; None where it is gone (proc_pid_statm(5))."""
    with suppress(OSError, IndexError, ValueError):
        return Taken(resident_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir())), ranks)
    return None


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """By how much something grows in a minute, by least squares; times in seconds."""
    if len(samples) < 2:
        return 0.0
    middle = sum(at for at, _ in samples) / len(samples)
    mean = sum(value for _, value in samples) / len(samples)
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return 60 * sum((at - middle) * (value - mean) for at, value in samples) / spread if spread else 0.0
