"""The firewall rules of a machine between two cables: as they were reviewed, and as their grammars want them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reconciler.hardening import nftables, pf
from reconciler.hardening.policy import Policy, policy
from reconciler.planning.context.world import World as PlanningWorld
from reconciler.state import NodeName
from tests.planning.macs import A, C, learn_of_port, three_macs
from tests.worlds import World, node

REVIEWED_PF = """\
# Who may connect to the ranks of node-a. Written by: reconciler node firewall node-a
# check  sudo pfctl -n -a com.apple/reconciler -f /etc/pf.anchors/reconciler
# load   sudo pfctl -a com.apple/reconciler -f /etc/pf.anchors/reconciler -E      (remember the token that it prints)
# undo   sudo pfctl -a com.apple/reconciler -F all; sudo pfctl -X TOKEN
table <reconciler> const { 192.168.1.11, 192.168.1.12, 192.168.1.13 }
pass in quick on lo0 all
pass in quick proto tcp from any to any port { 22 }
# node-a/3 - node-b/4
pass in quick on en3 proto tcp from 10.77.24.110 to 10.77.24.109
block return in quick on en3 proto tcp from any to any flags S/SA
# node-a/4 - node-c/3
pass in quick on en4 proto tcp from 10.77.142.106 to 10.77.142.105
block return in quick on en4 proto tcp from any to any flags S/SA
pass in quick proto tcp from <reconciler> to any user cluster
block return in quick proto tcp from any to any user cluster flags S/SA
"""
_HOST = r"(any|<[a-z]+>|[0-9]{1,3}(\.[0-9]{1,3}){3})"
PF_GRAMMAR = re.compile(
    r"#.*"
    r"|table <[a-z]+> const \{ [0-9.]+(, [0-9.]+)* \}"
    r"|(pass|block return) in quick( on [a-z]+[0-9]+)?"
    rf"( all|( proto tcp)? from {_HOST} to {_HOST}( port \{{ [0-9]+(, [0-9]+)* \}})?( user [A-Za-z0-9_.-]+)?( flags S/SA)?)"
)
"""The part of pf.conf(5)'s grammar that the rules may use: action, direction, quick, interface, protocol, hosts, filter
options."""


def place() -> World:
    world = three_macs()
    world.manifests = [
        node(each.metadata.name, address=f"192.168.1.{number}")
        if each.kind == "Node" else each
        for number, each in enumerate(world.manifests, 11)
    ]  # fmt: skip
    return world


def wanted(world: World, name: NodeName = A, user: str = "cluster") -> Policy:
    return policy(PlanningWorld(world.desired(), world.observed(), world.memory(), world.now, ""), name, user)


def test_the_rules_for_pf_are_those_that_were_reviewed() -> None:
    assert pf.rules(wanted(place())) == REVIEWED_PF


def test_each_rule_for_pf_is_of_its_grammar() -> None:
    for line in pf.rules(wanted(place())).splitlines():
        assert PF_GRAMMAR.fullmatch(line), line


@pytest.mark.parametrize("write", [pf.rules, nftables.rules])
def test_ssh_is_let_through_before_anything_is_refused(write: object) -> None:
    assert callable(write)
    rules = write(replace(wanted(place()), ports=(22, 2222)))
    first_refusal = re.search("^ *(block|.*reject)", rules, re.MULTILINE)
    assert first_refusal is not None
    assert "22, 2222" in rules[: first_refusal.start()]


def over_ssh(world: World, name: NodeName, **ssh: object) -> None:
    """Have a node that is reached by SSH."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"
    spec = {"ssh": {"user": "ada", "hostKey": key, **ssh}}
    body = {"apiVersion": "reconciler/v1alpha1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
    world.manifests = [
        type(each).model_validate(body, strict=False) if each.metadata.name == name else each
        for each in world.manifests
    ]


def test_a_node_with_another_port_of_ssh_keeps_it_open() -> None:
    world = place()
    over_ssh(world, A, host="192.168.1.11", port=2222)
    found = wanted(world)
    assert (found.ports, found.user) == ((22, 2222), "ada")


def test_a_machine_or_cable_whose_address_is_not_known_is_named() -> None:
    world = place()
    over_ssh(world, C, host="studio-3.local")
    learn_of_port(world, A, interface="")
    found = wanted(world)
    assert [text.partition(" is not known")[0] for text in found.unknown] == [
        "the address of node-c",
        "the interface of node-a/3",
    ]
    assert [cable.interface for cable in found.cables] == ["en4"]


@pytest.mark.parametrize("interface", ["en3 from any", "en3\npass in all", '"', "en3;"])
def test_no_word_that_a_machine_says_becomes_a_rule(interface: str) -> None:
    world = place()
    learn_of_port(world, A, interface=interface)
    found = wanted(world)
    assert [cable.interface for cable in found.cables] == ["en4"]
    for line in pf.rules(found).splitlines():
        assert PF_GRAMMAR.fullmatch(line), line


@pytest.mark.parametrize("user", ["", "a b", "ada\npass in all", "CORP\\ada", "{ root }"])
def test_a_user_that_no_rule_can_name_gets_none(user: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a rule"):
        pf.rules(wanted(place(), user=user))
