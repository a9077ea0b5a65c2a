"""Counts of requests at two gateways, of which one has taken over from the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.wire.figures import ModelFigures


def together(own: Sequence[ModelFigures], other: Sequence[ModelFigures]) -> tuple[ModelFigures, ...]:
    """Return the counts of both, by deployment."""
    found = {each.model: each for each in own}
    for each in other:
        mine = found.get(each.model)
        if mine is None:
            found[each.model] = each
        elif len(mine.first_token) == len(each.first_token):  # else the two versions count by other bounds
            found[each.model] = _combined(mine, each, 1)
    return tuple(found.values())


def since(now: Sequence[ModelFigures], before: Sequence[ModelFigures]) -> tuple[ModelFigures, ...]:
    """Return what was counted since ``before``, and what runs and waits now."""
    early = {each.model: each for each in before}
    return tuple(_combined(each, early[each.model], -1) if each.model in early else each for each in now)


def _combined(one: ModelFigures, other: ModelFigures, sign: int) -> ModelFigures:
    running, waiting = (other.running, other.waiting) if sign > 0 else (0, 0)
    return ModelFigures(
        one.model,
        one.running + running,
        one.waiting + waiting,
        one.errors + sign * other.errors,
        tuple(a + sign * b for a, b in zip(one.first_token, other.first_token, strict=True)),
        one.tokens + sign * other.tokens,
    )
