"""Clients of simulated clusters: everybody is answered, a poison is refused, and the rules notice where it is not so."""

from __future__ import annotations

import pytest

from reconciler.gateway.routing import suspects
from tests.simulation.schedules import acts
from tests.simulation.schedules.play import listening
from tests.simulation.schedules.points import Points
from tests.simulation.schedules.scenarios import SCENARIOS
from tests.simulation.world.clients import Clients
from tests.simulation.world.gateway import POISON

SECONDS = 60.0


def use(good: int, poisons: int, killed_at: float | None = None) -> tuple[Clients, list[str]]:
    """Let clients use a cluster, and with ``killed_at`` a rank be killed; what they got, and what broke a rule."""
    with listening():
        world = SCENARIOS["bring-up"].world(Points(), 0)
        try:
            clients = world.serve_clients(good, poisons, SECONDS)
            if killed_at is not None:
                world.loop.call_later(killed_at, acts.crash("big", 0, 0), world)
            world.run(SECONDS + 120)
            return clients, list(world.oracles.violations)
        finally:
            world.close()


def test_clients_are_answered_over_the_end_of_a_group() -> None:
    clients, violations = use(4, 0, killed_at=30.0)
    assert violations == []
    assert clients.answered > 20
    assert clients.asking == 0
    assert not clients.refused


@pytest.mark.parametrize("poisons", [1, 3])
def test_poisons_are_refused_and_nobody_else_is(poisons: int) -> None:
    clients, violations = use(4, poisons)
    assert violations == []
    assert set(clients.refused) >= {f"{POISON} {number}" for number in range(poisons)}
    assert all(clients.refused[f"{POISON} {number}"] for number in range(poisons))
    assert clients.answered > 10


def test_it_is_noticed_where_a_poison_is_sent_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "GUILTY_ALONE", 1000)
    monkeypatch.setattr(suspects, "GUILTY", 1000)
    _, violations = use(2, 1)
    assert any("its group number 3" in violation for violation in violations)


def test_it_is_noticed_where_a_client_that_behaves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspects, "GUILTY_ALONE", 1)
    monkeypatch.setattr(suspects, "GUILTY", 1)
    _, violations = use(4, 0, killed_at=30.0)
    assert any("422 prompt_quarantined" in violation for violation in violations)
