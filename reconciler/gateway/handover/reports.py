"""Finds what an old gateway has used since its last report. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.ledger import MemoryLedger
from reconciler.wire.figures import ModelFigures
from reconciler.wire.handover import Used
from reconciler.wire.keys import KeyUsage


class Reports:
    """The use of all keys, in parts that add up to all of it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: dict[str, Used] = {}

    def first(self) -> list[Used]:
        """Return the use of all keys, also in the last minute, unless a store of limits counts that."""
        ledger, now, all_of_it = self._desk.ledger, self._desk.now(), self.news()
        if not isinstance(ledger, MemoryLedger):
            return all_of_it
        recent = [ledger.recent(each.usage.name, now) for each in all_of_it]
        return [
            replace(each, requests=tuple(requests), tokens=tuple(tokens))
            for each, (requests, tokens) in zip(all_of_it, recent, strict=True)
        ]

    def news(self) -> list[Used]:
        """Return the use of each key since the last call; all of it at the first."""
        told, counts = self._told, self._desk.book.counts()
        self._told = {}
        for usage in self._desk.snapshot():
            of = counts[usage.name]
            self._told[usage.name] = Used(usage, of.requests, of.prompt, of.completion)
        return [_since(now, told.get(name)) for name, now in self._told.items() if now != told.get(name)]


def _since(now: Used, before: Used | None) -> Used:
    if before is None:
        return now
    early = before.usage if before.usage.day == now.usage.day else KeyUsage(now.usage.name, now.usage.day)
    usage = replace(
        now.usage,
        tokens=now.usage.tokens - early.tokens,
        requests=now.usage.requests - early.requests,
    )
    ended, prompt = now.ended - before.ended, now.prompt - before.prompt
    return Used(usage, ended, prompt, now.completion - before.completion)


def together(
    own: Sequence[ModelFigures], other: Sequence[ModelFigures], bounds: Sequence[float]
) -> tuple[ModelFigures, ...]:
    """Return the sums by deployment. Counts of the other gateway with another number of ``bounds`` are left out."""
    found = {each.model: each for each in own}
    for each in other:
        if len(each.first_token) != len(bounds) + 1:  # another version, with other bounds
            continue
        mine = found.get(each.model)
        found[each.model] = each if mine is None else _sum(mine, each)
    return tuple(found.values())


def _sum(one: ModelFigures, other: ModelFigures) -> ModelFigures:
    return ModelFigures(
        one.model,
        one.running + other.running,
        one.waiting + other.waiting,
        one.errors + other.errors,
        tuple(a + b for a, b in zip(one.first_token, other.first_token, strict=True)),
        one.tokens + other.tokens,
    )
