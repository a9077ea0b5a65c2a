"""Each rule about gateways on nodes bites: in a world that is broken on purpose it says so."""

from __future__ import annotations

import sys

import pytest

from reconciler.planning.context.decision import NOTHING, Decision
from reconciler.planning.nodes import gateways
from reconciler.planning.nodes.gateways import FAILING_SECONDS
from reconciler.planning.plan import GATES, _held_back
from reconciler.state import NodeName, ObjectKey, RefusedBecause
from reconciler.state.plan import GatewayRefusal
from tests.simulation.schedules.acts import Act, commit
from tests.simulation.schedules.gateways import (
    GATEWAY_SCENARIOS,
    freeze_gateway,
    kill_gateway,
    on_nodes,
    take_port,
    upgrade,
)
from tests.simulation.world.node_gateways import FrontProcess, GatewayHome
from tests.simulation.world.world import World

from .ends import missing
from .pruning import REASONS_KEPT_SECONDS
from .up import up

GATEWAY = GATEWAY_SCENARIOS["gateway"]


def violations(world: World, words: str) -> list[str]:
    return [text for text in world.oracles.violations if words in text]


def test_a_second_gateway_of_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    world = up(GATEWAY)
    home = world.machines["a"].gateway
    first = home.serving
    assert first is not None
    first.locked = False  # as if a lock held nobody off, and nobody looked
    monkeypatch.setattr(GatewayHome, "running", None)
    world.run(10.0)
    assert violations(world, f"listens while {first} does")


def test_a_gateway_that_is_ended_while_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = up(GATEWAY)
    world.run(REASONS_KEPT_SECONDS)
    monkeypatch.setattr(gateways, "_wants", lambda world, name: False)
    world.run(15.0)
    assert violations(world, "is wanted, and controller #1 does this: remove routes.json keys")
    assert violations(world, "is wanted, and controller #1 does this: signal TERM")


def test_one_that_is_replaced_is_ended_rightly() -> None:
    world = up(GATEWAY)
    world.run(REASONS_KEPT_SECONDS)
    upgrade(2)(world)
    world.run(15.0)
    assert (world.oracles.violations, missing(world)) == ([], "")


def test_a_step_that_is_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    without = tuple(gate for gate in GATES if gate.run is not _held_back)
    monkeypatch.setattr(sys.modules[_held_back.__module__], "GATES", without)
    world = up(GATEWAY)
    take_port("a", True)(world)
    kill_gateway("a")(world)
    world.run(300.0)
    assert violations(world, "the gateway on a: start, 24 times within ten minutes")


def test_a_gateway_that_fails_and_of_which_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "_refused", lambda world, name: NOTHING)
    world = up(GATEWAY)
    take_port("a", True)(world)
    kill_gateway("a")(world)
    world.run(FAILING_SECONDS + 40.0)
    assert violations(world, "no gateway serves on a for")
    assert not violations(world, "on b")


def test_a_gateway_that_serves_and_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = up(GATEWAY)
    main, why = ObjectKey("Gateway", "main"), RefusedBecause.NO_GATEWAY
    refusal = GatewayRefusal(main, why, "it is gone", node=NodeName("b"))
    monkeypatch.setattr(gateways, "_refused", lambda world, name: Decision(refused=(refusal,)))
    world.run(60.0)
    assert violations(world, "the gateway on b serves for")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (freeze_gateway("a"), "the gateway on a does not serve"),
        (kill_gateway("b"), "the gateway on b does not serve"),
        (commit(*on_nodes("a")), "b is to have no gateway, and has"),
    ],
)
def test_what_is_missing_in_the_end(act: Act, words: str) -> None:
    world = up(GATEWAY)
    act(world)
    assert words in world.oracles.gateways.missing()


def test_a_gateway_without_its_key_or_with_other_routes_or_of_another_version() -> None:
    world = up(GATEWAY)
    home = world.machines["a"].gateway
    process = home.serving
    assert isinstance(process, FrontProcess)
    keys = {path: home.files[path] for path in home.files if path.startswith("keys")}
    routes = home.files["routes.json"]
    for path in keys:
        del home.files[path]
    assert world.oracles.gateways.missing() == "the gateway on a has the keys []"
    home.files |= keys
    home.files["routes.json"] = routes.replace(b'"sequence": ', b'"sequence": 9')
    assert "the gateway on a has the routes" in world.oracles.gateways.missing()
    home.files["routes.json"] = routes
    process.program = "gateway-0.pyz"
    assert world.oracles.gateways.missing() == "the gateway on a runs gateway-0.pyz, expected gateway-1.pyz"
