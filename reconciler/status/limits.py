"""The condition of keys' limits: shared by all gateways, or divided among them."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.state import LimitsObservation
from reconciler.wire import objects

from .snapshots import ConditionState, Snapshots

TYPE = "LimitsDivided"
"""The type of the condition, which is true if a gateway grants only its share of each limit."""


def conditions(name: str, snapshots: Snapshots) -> tuple[ConditionState, ...]:
    """Return the condition of a Gateway's limits; none if there is only one gateway and no store, or no keys."""
    wanted, seen = snapshots.desired.gateway, snapshots.observed.gateway
    if wanted is None or wanted.metadata.name != name or wanted.spec.auth.mode == "none":
        return ()
    spec = wanted.spec
    if spec.limits is None:
        share = _share(1 + len(spec.nodes))
        text = f"each gateway grants {share}; to count together, declare a store: spec.limits.store"
        return (ConditionState(TYPE, True, "NoStore", text),) if spec.nodes else ()
    address = spec.limits.store.address
    if seen is None or seen.limits is None or not (seen.limits.shared or seen.limits.problem):
        return (ConditionState(TYPE, False, "NotAskedYet", ""),)
    others = snapshots.observed.gateways_on_nodes.values()
    places = [("the controller's machine", seen.limits), *((each.node, each.limits) for each in others)]
    away = list(_away(places))
    if not away:
        return (ConditionState(TYPE, False, "LimitsShared", f"all gateways count together in {address}"),)
    person = (
        f"see that {address} runs and lets the gateways in: each returns to it by itself"
        f" within seconds, and grants {_share(1 + len(spec.nodes))} meanwhile"
    )
    return (ConditionState(TYPE, True, "StoreAway", "; ".join(away), person),)


def as_json(seen: LimitsObservation | None) -> objects.CountedLimits | None:
    if seen is None:
        return None
    return {
        "gateways": seen.gateways,
        "store": seen.store or None,
        "shared": seen.shared,
        "problem": seen.problem or None,
    }


def _away(places: list[tuple[str, LimitsObservation | None]]) -> Iterator[str]:
    for where, seen in places:
        if seen is not None and seen.problem and not seen.shared:
            yield f"the gateway on {where} cannot use the store of limits: {seen.problem}"


def _share(gateways: int) -> str:
    return "all of every limit" if gateways == 1 else f"a share of every limit, 1/{gateways}"
