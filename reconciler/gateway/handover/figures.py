"""Adds the counts of a gateway to those of the gateway that has taken over from it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.wire.figures import ModelFigures


def together(
    own: Sequence[ModelFigures], other: Sequence[ModelFigures], bounds: Sequence[float]
) -> tuple[ModelFigures, ...]:
    """Return the sums by deployment. Counts of the other gateway with another number of ``bounds`` are left out."""
    found = {each.model: each for each in own}
    for each in other:
        if len(each.first_token) != len(bounds) + 1:  # another version, with other bounds
            continue
        mine = found.get(each.model)
        found[each.model] = each if mine is None else _combined(mine, each, 1)
    return tuple(found.values())


def since(now: Sequence[ModelFigures], before: Sequence[ModelFigures]) -> tuple[ModelFigures, ...]:
    """Return the counts since ``before``, and the numbers of running and waiting requests now."""
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
