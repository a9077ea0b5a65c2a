"""What must hold of a run, and the table that it is shown in. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median

from .agents import Counts
from .samples import MIB, Sample

GROWN_MIB_MAX = 12.0
"""What a process may take more in the end than after the first quarter, beside MLX's arrays."""
LEFT_MIB_MAX = 1.0
"""What MLX holds beside weights and prefix cache when nothing is asked."""
NEAR = 0.05
"""Of the time, before and after a moment: the median of that is what was taken then."""
QUARTER, HALF, END = 0.25, 0.5, 1.0
EVICTS_MINUTES_MIN = 10.0
"""From so many on, more was read than the prefix cache has room for."""


@dataclass(frozen=True, slots=True)
class Run:
    """All that is judged."""

    minutes: float
    samples: Sequence[Sample]
    """The first when nothing had been asked, the last when all was answered."""
    counts: Counts
    bound_mib: float
    """``serving.prefixCache``, as the endpoint says it."""
    charged_mib: Mapping[str, float] = field(default_factory=dict)
    """What placement charges for each rank."""
    restarted: Sequence[str] = ()
    """What happened to ranks, a sentence each."""
    cores: int = 1


def busy(before: Sample, now: Sample, cores: int) -> float:
    """Return the part of the machine that the cluster used between two samples."""
    return (now.cpu_seconds - before.cpu_seconds) / (now.at - before.at) / cores


@dataclass(frozen=True, slots=True)
class Grown:
    """What a process took at some moments, in MiB, beside MLX's arrays."""

    at_quarter: float
    at_half: float
    at_end: float
    per_hour: float
    """The slope of the second half."""
    seconds: float
    """The length of that."""

    @property
    def grows(self) -> bool:
        """Whether it takes more and more."""
        risen = self.per_hour * self.seconds / 3600
        return max(risen, self.at_end - self.at_quarter) > GROWN_MIB_MAX


def grown(run: Run, name: str) -> Grown:
    """Judge a process by its name."""
    begun, ended = run.samples[0].at, run.samples[-1].at
    taken = [
        ((one.at - begun) / (ended - begun), one.resident[name] - one.active.get(name, 0.0))
        for one in run.samples
    ]
    quarter, half, end = (_level(taken, moment) for moment in (QUARTER, HALF, END))
    second = [(share * (ended - begun), mib) for share, mib in taken if share >= HALF]
    return Grown(quarter, half, end, slope(second), (ended - begun) * (1 - HALF))


def slope(samples: Sequence[tuple[float, float]]) -> float:
    """By how much something grows in an hour; times in seconds. The median of the slopes between all pairs (Theil and
    Sen): that something was taken for a moment changes nothing."""
    slopes = [
        3600 * (late - early) / (after - before)
        for (before, early), (after, late) in combinations(samples, 2)
        if after > before
    ]
    return median(slopes) if slopes else 0.0


def _level(taken: Sequence[tuple[float, float]], moment: float) -> float:
    nearest = min(abs(share - moment) for share, _ in taken)
    return median(mib for share, mib in taken if abs(share - moment) <= max(NEAR, nearest))


def broken(run: Run) -> Iterator[str]:
    """What does not hold, a sentence each."""
    yield from run.restarted
    yield from _memory(run)
    yield from _cached(run)
    yield from _answers(run)


def _memory(run: Run) -> Iterator[str]:
    for name in run.samples[0].resident:
        one = grown(run, name)
        if one.grows:
            yield (
                f"{name} grows: {one.at_quarter:.1f} MiB after a quarter, {one.at_end:.1f} in the end,"
                f" {one.per_hour:+.1f} an hour in the second half; at most {GROWN_MIB_MAX:g} more may be"
            )
    for name, charged in run.charged_mib.items():
        most = max(one.resident[name] for one in run.samples)
        if most > charged:
            yield f"{name} took {most:.0f} MiB, and is charged for {charged:.0f}"
    first, last = run.samples[0], run.samples[-1]
    for name, active in last.active.items():
        left = active - first.active[name] - (last.prefix_mib - first.prefix_mib)
        if left > LEFT_MIB_MAX:
            yield f"{name}: MLX holds {left:.1f} MiB beside weights and prefix cache when nothing is asked"


def _cached(run: Run) -> Iterator[str]:
    last = run.samples[-1].page
    most = max(one.prefix_mib for one in run.samples)
    if most > run.bound_mib:
        yield f"the prefix cache took {most:.1f} MiB, its bound is {run.bound_mib:g}"
    hits, seen = last.get("vllm:prefix_cache_hits_total", 0.0), run.counts.tokens_cached
    if not seen or hits < seen:
        yield f"answers told of {seen} tokens that were not read, the metrics of {hits:.0f}"
    evicted = last.get("reconciler_prefix_cache_evictions_total", 0.0)
    if run.minutes >= EVICTS_MINUTES_MIN and not evicted:
        yield "nothing was evicted"
    for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
        if last.get(name):
            yield f"{name} is {last[name]:.0f} when all is answered"


def _answers(run: Run) -> Iterator[str]:
    counts = run.counts
    yield from (f"a request failed: {error}" for error in counts.errors)
    yield from (f"asked again, an answer is another: {text}" for text in counts.differing)
    if not (counts.checked and counts.cancelled and counts.called):
        yield (
            f"{counts.checked} answers were checked, {counts.cancelled} requests cancelled and {counts.called}"
            f" tools called: none of them may be 0"
        )


# --- what is printed -------------------------------------------------------------------------------


def line(begun: Sample, before: Sample, now: Sample, counts: Counts, cores: int) -> str:
    """Describe the time between two samples."""
    cached = counts.tokens_cached / counts.tokens_asked if counts.tokens_asked else 0.0
    ranks = " ".join(f"{now.resident[name]:.1f}/{active:.1f}" for name, active in now.active.items())
    evicted = now.page.get("reconciler_prefix_cache_evictions_total", 0.0)
    return (
        f"{(now.at - begun.at) / 60:6.1f} min  answered {counts.answered}, cancelled {counts.cancelled}, tools"
        f" {counts.called}, checked {counts.checked}, wrong {len(counts.errors) + len(counts.differing)};"
        f" busy {busy(before, now, cores):.0%}; ranks, resident/MLX: {ranks} MiB; cache {now.prefix_mib:.1f} MiB,"
        f" evicted {evicted:.0f}, hit {cached:.0%}"
    )


def table(run: Run) -> list[str]:
    """A line for each process: what it took beside MLX's arrays, and the most with them."""
    lines = ["MiB, without arrays   AT START  AT 1/4  AT 1/2  AT END  AN HOUR   MOST  CHARGED"]
    first = run.samples[0]
    for name in first.resident:
        one = grown(run, name)
        at_start = first.resident[name] - first.active.get(name, 0.0)
        most = max(sample.resident[name] for sample in run.samples)
        charged = f"{run.charged_mib[name]:.0f}" if name in run.charged_mib else "-"
        lines.append(
            f"{name:<22}{at_start:>10.1f}{one.at_quarter:>8.1f}{one.at_half:>8.1f}{one.at_end:>8.1f}"
            f"{one.per_hour:>+9.1f}{most:>7.1f}{charged:>9}"
        )
    return lines


def summary(run: Run) -> list[str]:
    """What else is to be known, a line each."""
    counts, first, last = run.counts, run.samples[0], run.samples[-1]
    finished = ", ".join(f"{reason} {count}" for reason, count in counts.finished.most_common())
    page = last.page
    active = ", ".join(
        f"{name} {first.active[name]:.1f} and {held:.1f}" for name, held in last.active.items()
    )
    return [
        f"requests: answered {counts.answered} ({finished}), with tool calls {counts.called}, cancelled"
        f" {counts.cancelled}, failed {len(counts.errors)}; asked again {counts.checked}, other answers"
        f" {len(counts.differing)}",
        f"prompts: {counts.tokens_asked} tokens, of which {counts.tokens_cached} were not read; by the metrics"
        f" {page.get('vllm:prefix_cache_queries_total', 0):.0f} and"
        f" {page.get('vllm:prefix_cache_hits_total', 0):.0f}",
        f"prefix cache: {last.prefix_mib:.1f} MiB of {run.bound_mib:g}, evictions"
        f" {page.get('reconciler_prefix_cache_evictions_total', 0):.0f}",
        f"MLX held, before the first request and after the last, MiB: {active}",
        f"the cluster used {busy(first, last, run.cores):.0%} of {run.cores} cores for {run.minutes:.0f} minutes",
    ]


def bound_mib(sample: Sample) -> float:
    """Return the bound of the prefix cache as the endpoint says it."""
    return sample.page.get("reconciler_prefix_cache_max_bytes", 0.0) / MIB
