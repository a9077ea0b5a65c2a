"""`node firewall`: the rules are printed as they are to be loaded, or it is said why there are none."""

from __future__ import annotations

import getpass
import json
from typing import Any

from reconciler.wire.admin import ShowProtection
from tests.cli.conftest import Cli, Controller

RULES = "# Who may connect\ntable inet reconciler\n"


def answering(
    controller: Controller, system: str = "Linux", rules: str = RULES, unknown: tuple[str, ...] = ()
) -> None:
    def answer(message: ShowProtection) -> dict[str, Any]:
        assert message == ShowProtection("node-a", getpass.getuser())
        firewall = {"file": "/etc/nftables.d/reconciler.nft", "rules": rules, "unknown": list(unknown)}
        return {"commands": [], "unknown": [], "system": system, "firewall": firewall}

    controller.answers["protection"] = answer


def test_the_rules_are_printed_and_nothing_else(cli: Cli, controller: Controller) -> None:
    answering(controller)
    found = cli("node", "firewall", "node-a")
    assert (found.code, found.out, found.err) == (0, RULES, "")


def test_rules_that_would_shut_the_cluster_out_are_not_printed(cli: Cli, controller: Controller) -> None:
    answering(controller, unknown=("the address of node-b is not known: set spec.address",))
    found = cli("node", "firewall", "node-a")
    assert (found.code, found.out) == (1, "")
    assert "would shut out machines of the cluster: the address of node-b is not known" in found.err


def test_a_system_without_rules_is_named(cli: Cli, controller: Controller) -> None:
    answering(controller, system="FreeBSD", rules="")
    found = cli("node", "firewall", "node-a")
    assert (found.code, found.out) == (1, "")
    assert "there are no rules for FreeBSD" in found.err


def test_a_program_gets_all_of_it(cli: Cli, controller: Controller) -> None:
    answering(controller, unknown=("x",))
    body = json.loads(cli("node", "firewall", "node-a", "-o", "json").out)
    assert (body["node"], body["system"], body["rules"], body["unknown"]) == ("node-a", "Linux", RULES, ["x"])
