"""The checklist after bring-up: judges the measurements of a group.

Figures are reported as measured and compared with each other, because there is no absolute target for a healthy
machine. What was not measured is reported as such, and does not pass.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.state import NodeName
from reconciler.wire.measuring import LinkPace, Measured

UNEVEN = 1.25
"""Ratio of a rank's uncharged memory to that of the others from which the split is not as planned."""
SLOW_NODE = 1.8
SLOW_LINK = 2.5
"""Ratio to the median of the others from which a machine or link is to blame; below it is normal variation."""
LATENCY_NOTED_SECONDS = 100e-6
"""Small transfers that are all shorter than this are not compared."""
GROWS = 1.05
"""Speed-up over a smaller group from which the larger group counts as faster."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a rank while answers were produced."""

    steps: int
    cores: float
    gpu_watts: float | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A measurement with several answers at once."""

    streams: int
    tokens_per_second: float
    """Rate of all answers together, without the time to the first token."""
    failures: int = 0


@dataclass(frozen=True)
class Trial:
    """All measurements of one group."""

    nodes: tuple[NodeName, ...]
    """Nodes in the order of ranks."""
    charges: tuple[int, ...]
    """Memory that each rank is charged for."""
    pace: Measured | None
    unmeasured: str = ""
    """The reason why there is no pace."""
    works: Mapping[int, Work] = field(default_factory=dict)
    streams: tuple[Stream, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the checklist. ``ok`` is None if it was not measured."""

    name: str
    ok: bool | None
    text: str
    blame: tuple[str, ...] = ()
    """Machines, or links as ``a - b``, that are to blame."""


def judge(trial: Trial, smaller: Mapping[int, float]) -> tuple[Check, ...]:
    """Return the checklist for one group. ``smaller``: tokens per second of one stream by number of nodes, for
    smaller groups that were measured."""
    return (
        _working(trial),
        _memory(trial),
        _computing(trial),
        _sums(trial),
        *_links(trial),
        _answering(trial),
        _growing(trial, smaller),
    )


def _working(trial: Trial) -> Check:
    name = "every rank works"
    if not trial.works:
        return Check(name, None, "not measured: no answer was produced")
    idle = [node for rank, node in enumerate(trial.nodes) if trial.works.get(rank, Work(0, 0.0)).steps == 0]
    text = ", ".join(
        f"{trial.nodes[rank]} {work.steps} steps, {work.cores:.1f} cores{_watts(work)}"
        for rank, work in sorted(trial.works.items())
        if rank < len(trial.nodes)
    )
    return Check(name, not idle, text or "no rank was seen", tuple(map(str, idle)))


def _watts(work: Work) -> str:
    return "" if work.gpu_watts is None else f", {work.gpu_watts:.0f} W"


def _memory(trial: Trial) -> Check:
    name = "memory is even"
    if trial.pace is None:
        return Check(name, None, f"not measured: {trial.unmeasured}")
    held = [rank.memory_bytes for rank in trial.pace.ranks]
    text = ", ".join(f"{node} {_gib(size)}" for node, size in zip(trial.nodes, held, strict=False))
    charges = trial.charges if len(trial.charges) == len(held) and all(trial.charges) else (1,) * len(held)
    shares = [size / charge for size, charge in zip(held, charges, strict=True)]
    usual = statistics.median(shares)
    heavy = [trial.nodes[rank] for rank, share in enumerate(shares) if usual and share > UNEVEN * usual]
    return Check(name, not heavy, text, tuple(map(str, heavy)))


def _computing(trial: Trial) -> Check:
    name = "every node is as fast as the others"
    if trial.pace is None:
        return Check(name, None, f"not measured: {trial.unmeasured}")
    seconds = [rank.compute_seconds for rank in trial.pace.ranks]
    text = ", ".join(f"{node} {_duration(each)}" for node, each in zip(trial.nodes, seconds, strict=False))
    if len(seconds) < 2:
        return Check(name, None, f"not compared: there is only one rank ({text} for a product of matrices)")
    fastest = min(seconds)
    slow = [trial.nodes[rank] for rank, each in enumerate(seconds) if each > SLOW_NODE * fastest]
    return Check(name, not slow, f"{text} for a product of matrices", tuple(map(str, slow)))


def _sums(trial: Trial) -> Check:
    name = "sums are right"
    if trial.pace is None:
        return Check(name, None, f"not compared: {trial.unmeasured}")
    if not trial.pace.summed_bytes:
        return Check(name, None, "not compared: nothing is summed by a rank alone")
    return Check(name, True, f"known sums of arrays of up to {_size(trial.pace.summed_bytes)}")


def _links(trial: Trial) -> Iterator[Check]:
    name = "collectives"
    pace = trial.pace
    if pace is None:
        yield Check(name, None, f"not measured: {trial.unmeasured}")
        return
    if len(pace.ranks) < 2:
        yield Check(name, None, "not measured: the group has only one rank")
        return
    text = (
        f"a sum of {_size(pace.small_bytes)} over all ranks takes {_duration(pace.small_seconds)}, of"
        f" {_size(pace.large_bytes)} {_duration(pace.large_seconds)} ({_rate(pace.large_bytes, pace.large_seconds)})"
    )
    yield Check(name, pace.small_seconds > 0 and pace.large_seconds > 0, text)
    yield _link(trial, "latency of links", [(link, link.small_seconds) for link in pace.links], None)
    yield _link(
        trial, "bandwidth of links", [(link, link.large_seconds) for link in pace.links], pace.large_bytes
    )


def _link(trial: Trial, name: str, paces: list[tuple[LinkPace, float]], size: int | None) -> Check:
    named = [(f"{trial.nodes[link.ranks[0]]} - {trial.nodes[link.ranks[1]]}", each) for link, each in paces]
    text = ", ".join(
        f"{direction} {_duration(each) if size is None else _rate(size, each)}" for direction, each in named
    )
    if len(named) < 2:
        return Check(name, None, f"not compared: there is only one link ({text})")
    slow = tuple(
        direction for direction, each in named if _is_slow(each, [other for _, other in named], size is None)
    )
    return Check(name, not slow, text, slow)


def _is_slow(seconds: float, every: list[float], small: bool) -> bool:
    usual = statistics.median(every)
    return seconds > SLOW_LINK * usual and not (small and seconds < LATENCY_NOTED_SECONDS)


def _answering(trial: Trial) -> Check:
    name = "answers"
    if not trial.streams:
        return Check(name, None, "not measured")
    text = ", ".join(
        f"{each.streams} at once {each.tokens_per_second:.1f} tokens/s" for each in trial.streams
    )
    failed = sum(each.failures for each in trial.streams)
    if failed:
        return Check(name, False, f"{text}; {failed} requests failed")
    first, best = trial.streams[0], max(each.tokens_per_second for each in trial.streams)
    return Check(name, first.tokens_per_second > 0 and best >= first.tokens_per_second, text)


def _growing(trial: Trial, smaller: Mapping[int, float]) -> Check:
    name = "more nodes are faster"
    fewer = {count: rate for count, rate in sorted(smaller.items()) if count < len(trial.nodes)}
    if not fewer or not trial.streams:
        return Check(name, None, "not measured: there is no group of fewer nodes to compare with")
    own = trial.streams[0].tokens_per_second
    text = ", ".join(f"{count} node{'s' * (count > 1)} {rate:.1f} tokens/s" for count, rate in fewer.items())
    text += f", {len(trial.nodes)} nodes {own:.1f} tokens/s"
    return Check(name, own > GROWS * max(fewer.values()), text)


# --- figures as people read them ---------------------------------------------------------------------


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def _rate(size: int, seconds: float) -> str:
    return f"{size / seconds / 1e9:.2f} GB/s" if seconds > 0 else "no figure"


def _size(size: int) -> str:
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 1024:.0f} KiB"


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
