"""The routes of gateways on other nodes. Two of them on two hosts: ``tests/hosts/test_two_gateways.py``."""

from __future__ import annotations

from reconciler.controller.fronts import routes_for
from reconciler.state import NodeName
from reconciler.wire.front import HookSecret
from reconciler.wire.generation import Backend, Machine, Route, Routes

FAR = Machine("10.0.0.3", 22, "me", "ssh-ed25519 AAAA")


def test_a_gateway_reaches_its_own_ranks_directly_and_none_of_the_controllers_machine() -> None:
    backends = (
        Backend(0, 1, "/run/r-0.sock", "here"),
        Backend(1, 1, "/run/r-1.sock", "studio-2", FAR),
        Backend(2, 1, "/run/r-2.sock", "studio-3", FAR),
    )
    routes = Routes(1, 7, "0.0.0.0:8400", 60.0, (Route("tiny", (), 0, 0, backends),), nodes=("studio-2",))
    found = routes_for(NodeName("studio-2"), routes)
    assert [(each.replica, each.machine) for each in found.routes[0].backends] == [(1, None), (2, FAR)]
    assert (found.sequence, found.listen) == (7, "0.0.0.0:8400")


def test_a_gateway_on_a_node_answers_no_webhook_for_its_secret_is_on_the_controllers_machine() -> None:
    routes = Routes(1, 7, "0.0.0.0:8400", 60.0, nodes=("studio-2",), hook=HookSecret(file="/etc/secret"))
    found = routes_for(NodeName("studio-2"), routes)
    assert (found.hook, found.gateway) == (None, "studio-2")
