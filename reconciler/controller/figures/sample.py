"""Makes the figures of one moment from the reports of agents and the gateway. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from reconciler.state import Contact, NodeName, NodeObservation
from reconciler.wire.figures import GatewayFigures, ModelFigures

from .series import Key, Sample

SHORT, LONG = 0.5, 0.95
"""Parts of the times to first tokens: half of them are no longer, and 95 of 100."""


def sample(
    nodes: Mapping[NodeName, NodeObservation],
    before: GatewayFigures | None,
    now: GatewayFigures | None,
    seconds: float,
) -> Sample:
    """Return the figures of all nodes whose agent answers, and of all deployments with ranks or requests.

    ``before``: the gateway's figures at the last sample, ``seconds`` ago: counts are the differences from these. Of two
    figures for tokens a second the larger one holds: a look at the ranks misses earlier tokens, and this gateway misses
    those of other gateways.
    """
    found: dict[Key, float] = dict(_of_nodes(nodes))
    if now is None:
        return found
    same = before is not None and before.pid == now.pid and before.bounds == now.bounds
    known = {each.model: each for each in before.models} if before is not None and same else {}
    for each in now.models:
        early = known.get(each.model)
        found.update(_of_requests(each, early, now.bounds))
        if early is not None:
            speed = Key(f"modeldeployment/{each.model}", "tokensPerSecond")
            found[speed] = max(found.get(speed, 0.0), max(0, each.tokens - early.tokens) / seconds)
    return found


def _of_nodes(nodes: Mapping[NodeName, NodeObservation]) -> Iterator[tuple[Key, float]]:
    speeds: Counter[str] = Counter()
    for name, seen in nodes.items():
        report = seen.report
        if report is None or seen.contact is not Contact.REACHED:
            continue
        of, load = f"node/{name}", report.load
        if load is not None:
            yield Key(of, "load"), load.average
            if load.memory_free_bytes is not None:
                yield Key(of, "memoryUsedBytes"), report.memory_bytes - load.memory_free_bytes
        if seen.facts.gpu_watts is not None:
            yield Key(of, "watts"), seen.facts.gpu_watts
        for rank in report.ranks:
            if rank.exit is None and rank.id.rank == 0:
                speeds[rank.id.deployment] += rank.tokens_per_second  # type: ignore[assignment]  # a sum of floats
    for deployment, speed in speeds.items():
        yield Key(f"modeldeployment/{deployment}", "tokensPerSecond"), speed


def _of_requests(
    now: ModelFigures, before: ModelFigures | None, bounds: tuple[float, ...]
) -> Iterator[tuple[Key, float]]:
    of = f"modeldeployment/{now.model}"
    yield Key(of, "running"), now.running
    yield Key(of, "waiting"), now.waiting
    if before is None:
        return
    yield Key(of, "errors"), max(0, now.errors - before.errors)
    new = [late - early for late, early in zip(now.first_token, before.first_token, strict=False)]
    for name, part in (("firstTokenP50", SHORT), ("firstTokenP95", LONG)):
        seconds = quantile(new, bounds, part)
        if seconds is not None:
            yield Key(of, name), seconds


def quantile(counts: list[int], bounds: tuple[float, ...], part: float) -> float | None:
    """Return the seconds within which a part of all came, from counts between bounds; None if none came.

    Between two bounds they count as spread evenly, as PromQL's ``histogram_quantile`` does; beyond the last bound it is
    that bound.
    """
    wanted, passed = sum(counts) * part, 0.0
    if wanted <= 0:
        return None
    for count, (low, high) in zip(counts, pairwise((0.0, *bounds)), strict=False):
        if passed + count >= wanted:
            return low + (high - low) * (wanted - passed) / count
        passed += count
    return bounds[-1]
