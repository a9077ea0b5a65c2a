"""What happens to a group or a machine, and what the doctor says: pinned for every class of faults.

``findings.yaml`` has for each observation the findings: class, what was seen, what it means, the steps, and whether
they are a person's. It is read by people: after a wanted change, look at what
``UPDATE_GOLDEN=1 pytest tests/doctor/test_findings.py`` makes of it, line by line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import incidents
from reconciler.doctor import Examination, examine
from reconciler.doctor.checks import CHECKS
from reconciler.doctor.finding import MEANS
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import End, Node, SshAccess
from reconciler.resources.node import Repair
from reconciler.state import (
    AllocateEpoch,
    FaultClass,
    GatewayObservation,
    NodeName,
    ObjectKey,
    Observed,
    Plan,
    PortFacts,
    Refusal,
    RefusedBecause,
    StartRank,
)
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.incident import Incident
from reconciler.status import Snapshots
from reconciler.wire.node import HeldBy, Load
from tests.planning.diagnosis.healing_cases import HAPPENINGS
from tests.planning.macs import A, B, learn, learn_of_port, two_macs
from tests.worlds import World, deployment, fabric, gateway, node

FILE = Path(__file__).with_name("findings.yaml")
PINNED: dict[str, Any] = yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader) if FILE.exists() else {}
GIB = 2**30
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPb8M+Ie0GxyyJ9ioO9QsBnLMhGMKQFTMYFkxKHrbdEZ"
SSH = SshAccess.model_validate({"host": "b.local", "user": "cluster", "hostKey": HOST_KEY})


def look(
    world: World, names: tuple[NodeName, ...] = (), incidents: Iterable[Incident] = (), **seen: Any
) -> Examination:
    """The doctor's look at a world, in which something is seen otherwise of node-b."""
    observed = world.observed()
    nodes = {**observed.nodes, B: replace(observed.nodes[B], **seen)}
    return examine(
        Snapshots(
            world.desired(), Observed(nodes, observed.gateway), world.memory(), world.plan(), world.now
        ),
        names,
        incidents,
    )


def findings_of(found: Examination) -> list[dict[str, Any]]:
    return [
        {
            "class": f"{each.code} {each.title}",
            "of": ", ".join(map(str, each.objects)),
            "seen": each.seen,
            "means": each.means,
            "steps": each.steps,
            "person": each.person,
        }
        for each in found.findings
    ]


def _reports(**fields: Any) -> Callable[[World], None]:
    def happen(world: World) -> None:
        world.reports[B] = {**world.reports.get(B, {}), **fields}

    return happen


def _knows(**facts: Any) -> Callable[[World], None]:
    return lambda world: learn(world, B, **facts)


def _manifest(**spec: Any) -> Callable[[World], None]:
    """The Node of node-b says more."""

    def happen(world: World) -> None:
        changed = [
            each.model_copy(update={"spec": each.spec.model_copy(update=spec)})
            if isinstance(each, Node) and each.metadata.name == B
            else each
            for each in world.manifests
        ]
        world.manifests = changed

    return happen


def _over_ssh(held_by: str) -> Callable[[World], None]:
    def happen(world: World) -> None:
        _manifest(local=None, ssh=SSH)(world)
        _reports(held_by=held_by)(world)

    return happen


def _allowed(**repair: bool) -> Callable[[World], None]:
    return _manifest(repair=Repair(**repair))


def _both(*happenings: Callable[[World], None]) -> Callable[[World], None]:
    def happen(world: World) -> None:
        for each in happenings:
            each(world)

    return happen


def _leased(world: World) -> None:
    """The port has its address, and another one beside it."""
    world.bring(fabric("studios", ("node-a/3", "node-b/4"), pool="10.77.0.0/16"))
    for name, end in ((A, End(A, 3)), (B, End(B, 4))):
        learn_of_port(world, name, address=str(all_addresses(world.desired())[end].ip))
    learn_of_port(world, B, other_addresses=("169.254.3.4", "192.168.2.2"))


BESIDE: dict[str, Callable[[World], None]] = {
    "C0 sleep is on": _knows(sleeps=True),
    "C0 FileVault, and restarts are allowed": _both(_knows(filevault=True), _allowed(reboot=True)),
    "C1 another build of macOS": _reports(build="25D999"),
    "C1 updates by itself": _knows(updates_itself=True),
    "C5 a firewall": _knows(firewall=True),
    "C8 an index and backups of weights": _knows(weights_indexed=True, weights_backed_up=True),
    "C1 another version of MLX": _reports(
        runtime={"mlx": "0.32.1", "mlx-lm": "0.32.2", "llguidance": "1.9.1"}
    ),
    "C1 no MLX": _reports(runtime={}),
    "C1 a cable of Thunderbolt 4": lambda world: learn_of_port(world, B, gbps=40),
    "C1 a dock between": lambda world: learn_of_port(
        world, B, peer=None, through=("ThunderBay Flex 8",), peer_model="Mac16,5"
    ),
    "C4 internet over a cable": _knows(default_route="en4"),
    "C4 internet over the bridge": _both(
        _knows(default_route="bridge0"), lambda world: learn_of_port(world, B, bridged=True)
    ),
    "C4 an address from somebody else": _leased,
    "C4 ports of other names": _knows(ports_named=False),
    "C4 a port of Internet Sharing": lambda world: learn_of_port(
        world, B, bridged=True, other_bridge="bridge100"
    ),
    "C4 a port in the bridge": lambda world: learn_of_port(world, B, bridged=True),
    "C7 protection domains of another program": _knows(protection_domains=3),
    "C7 left processes of ranks": _knows(stray_ranks=2),
    "C8 a full disk": _knows(disk_free_bytes=3 * GIB),
    "C9 heat": _knows(throttled=True),
    "C10 memory runs low": _reports(load=Load(1000.0, memory_free_bytes=GIB, pressure="critical")),
    "C10 a limit of wired memory": _both(
        _knows(wired_limit_bytes=16 * GIB),
        lambda world: _manifest(memory=node("x", memory={"limit": "48GiB"}).spec.memory)(world),
    ),
    "C11 wired memory beside ranks": _knows(wired_excess_bytes=None, wired_beside_ranks_bytes=200 * GIB),
    "C12 a panic": _knows(panics=1),
    "C12 a panic of RDMA": _knows(panics=1, rdma_panics=1, rdma_panics_of_day=1),
    "C12 swap in use": _knows(swap_used_bytes=5 * GIB),
    "C12 managed by an organisation": _knows(managed=True),
    "C14 a session that is over": _over_ssh(HeldBy.LEFT),
}
"""What no group has met yet, by name, which begins with the class."""
SEEN: dict[str, dict[str, Any]] = {
    "C0 another host key": {
        "barred": "HostKeyChanged",
        "problem": "the host key of b is not the one of the manifest",
    },
    "C0 no login": {"barred": "LoginRefused", "problem": "b refuses the login of user cluster"},
    "C0 a locked disk": {
        "barred": "DiskLocked",
        "problem": "cluster@b.local takes passwords only",
        "remedy": "ssh cluster@b.local and type the password of that user",
    },
    "C5 a clock that is wrong": {"skew_seconds": 90.0},
}


def beside(name: str) -> list[dict[str, Any]]:
    world = two_macs()
    world.reports = {each: {"build": "25D125", "load": Load(1000.0, 32 * GIB, "normal")} for each in (A, B)}
    BESIDE[name](world)
    return findings_of(look(world))


def of_group(name: str) -> list[dict[str, Any]]:
    world = two_macs()
    HAPPENINGS[name](world)
    world.pass_time(world.now + 40)
    return findings_of(look(world))


def of_seen(name: str) -> list[dict[str, Any]]:
    world = two_macs()
    if "barred" in SEEN[name]:
        world.lose(B)
        lost = world.lost[B]
        world.lost[B] = replace(lost, **SEEN[name])
        return findings_of(look(world))
    world.reports = {each: {"load": Load(1000.0)} for each in (A, B)}
    return findings_of(look(world, **SEEN[name]))


CASES: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    **dict.fromkeys(HAPPENINGS, of_group),
    **dict.fromkeys(BESIDE, beside),
    **dict.fromkeys(SEEN, of_seen),
}

if os.environ.get("UPDATE_GOLDEN"):
    PINNED = {name: CASES[name](name) for name in CASES}
    FILE.write_text(yaml.safe_dump(PINNED, sort_keys=False, width=110, allow_unicode=True))


@pytest.mark.parametrize("name", CASES)
def test_an_observation_leads_to_these_findings(name: str) -> None:
    assert CASES[name](name) == PINNED[name]


def test_every_class_is_pinned_named_and_told_what_it_means() -> None:
    assert (
        {name.split()[0] for name in PINNED}
        == {fault.value for fault in FaultClass}
        == {f.value for f in MEANS}
    )
    for name, findings in PINNED.items():
        assert name.split()[0] in {finding["class"].split()[0] for finding in findings}, name
        assert all(finding["steps"] and finding["means"] for finding in findings)


def test_two_macs_that_are_well_have_no_findings() -> None:
    assert look(two_macs()).findings == ()


@pytest.mark.parametrize("route", [None, "", "en0", "utun4", "bridge0"])
def test_a_default_route_that_no_cable_has_is_fine(route: str | None) -> None:
    world = two_macs()
    learn(world, B, default_route=route)
    assert look(world).findings == ()


def test_checks_are_in_the_order_of_the_classes() -> None:
    order = list(FaultClass)
    assert [c.fault for c in CHECKS] == sorted((c.fault for c in CHECKS), key=order.index)


def test_findings_come_in_the_order_in_which_one_explains_the_next() -> None:
    world = two_macs()
    learn(world, B, panics=1, sleeps=True, rdma_enabled=False)
    assert [each.code for each in look(world).findings] == ["C0", "C2", "C12"]


def test_rdma_that_is_off_on_one_machine_is_one_finding_though_the_other_end_is_down_for_it() -> None:
    world = two_macs()
    learn(world, B, rdma_enabled=False)
    learn_of_port(world, A, verbs_up=False)
    (finding,) = look(world).findings
    assert (finding.fault, finding.person) == (FaultClass.RDMA_DISABLED, True)
    assert "rdma_ctl enable" in finding.steps


def test_a_silent_machine_is_one_finding_about_itself_and_the_groups_that_suffer() -> None:
    world = two_macs()
    world.lose(B)
    world.pass_time(world.now + 40)
    (finding,) = look(world).findings
    assert [str(key) for key in finding.objects] == ["node/node-b", "modeldeployment/tiny"]


def test_machines_are_judged_before_anybody_wants_a_group_on_them() -> None:
    world = two_macs()
    world.manifests = [each for each in world.manifests if each.kind != "ModelDeployment"]
    world.settle()
    learn(world, B, rdma_enabled=False)
    assert [each.code for each in look(world).findings] == ["C2"]


def test_where_nobody_wants_rdma_its_absence_is_no_finding() -> None:
    world = two_macs(transport=["ring-lan"])
    learn(world, B, rdma_enabled=False)
    learn_of_port(world, B, through=("a dock",), peer_model="Mac16,5", bridged=True)
    assert look(world).findings == ()


def test_a_gateway_that_may_have_few_descriptors_is_a_finding_of_its_own() -> None:
    world = two_macs()
    world.manifests.append(gateway())
    shortage = "the gateway may have only 256 descriptors"
    seen = Observed(world.observed().nodes, GatewayObservation(7, "http://x/v1", shortage=shortage))
    asked = Snapshots(world.desired(), seen, world.memory(), world.plan(), world.now)
    (finding,) = examine(asked).findings
    assert (finding.fault, finding.seen, finding.person) == (FaultClass.LAUNCH_CONTEXT, shortage, True)
    assert [str(key) for key in finding.objects] == ["gateway/main"]
    assert "ulimit -Hn" in finding.steps
    assert examine(asked, (A,)).findings == ()


def test_one_machine_alone_can_be_asked_for() -> None:
    world = two_macs()
    learn(world, A, sleeps=True)
    learn(world, B, sleeps=True)
    found = look(world, (B,))
    assert [each.nodes for each in found.findings] == [(B,)]
    assert {each.node for each in found.unknown} <= {B}


# --- what is not known -------------------------------------------------------------------------------


def test_what_a_tool_does_not_report_is_unknown_with_its_reason() -> None:
    world = two_macs()
    learn(world, B, filevault=None, unknown=(("FileVault", "there is no fdesetup on this machine"),))
    found = [each for each in look(world).unknown if each.what == "whether FileVault is on"]
    assert [(each.node, each.why) for each in found if each.node == B] == [
        (B, "there is no fdesetup on this machine")
    ]


def test_of_a_machine_that_does_not_answer_nothing_is_known() -> None:
    world = two_macs()
    world.lose(B)
    assert [(each.what, each.why) for each in look(world).unknown if each.node == B] == [
        ("everything", "timed out")
    ]


def test_of_a_mac_whose_probes_were_not_asked_nothing_is_known() -> None:
    world = two_macs()
    found = [each.what for each in look(world, probed=False).unknown if each.node == B]
    assert "all facts from its probes" in found


def test_ports_are_known_or_reported_as_unknown() -> None:
    world = two_macs()
    learn(world, B, ports=(PortFacts(4, connected=True, device="rdma_en4"), PortFacts(5)))
    what = {each.what for each in look(world).unknown if each.node == B}
    assert {"the speed of port 4", "whether a bridge has port 4", "the GID of port 4"} <= what
    assert "whether anything is connected to port 5" in what


# --- groups that come up again -----------------------------------------------------------------------


def open_incidents(world: World, known: dict[int, Incident]) -> dict[int, Incident]:
    """As a pass leaves them."""
    snapshots = Snapshots(world.desired(), world.observed(), world.memory(), world.plan(), world.now)
    return incidents.follow(known, len(known), snapshots, (), {})


def test_a_group_that_comes_up_again_is_a_finding_until_it_serves() -> None:
    world = two_macs()
    HAPPENINGS["C8 a crash"](world)
    known = open_incidents(world, {})
    world.obey(next(step for step in world.plan().steps if isinstance(step, AllocateEpoch)))
    assert world.plan().troubles == ()
    known = open_incidents(world, known)
    (finding,) = look(world, incidents=known.values()).findings
    assert (finding.fault, str(finding.objects[0])) == (FaultClass.RANK_CRASH, "modeldeployment/tiny")
    assert "was killed by signal 11" in finding.seen
    assert finding.steps == "nothing: the controller is working on it (form the group again)"
    world.settle()
    known = open_incidents(world, known)
    assert look(world, incidents=known.values()).findings == ()


def test_of_a_group_that_could_not_be_formed_again_that_is_told_and_no_longer_what_it_first_died_of() -> None:
    world, known = two_macs(), dict[int, Incident]()
    for happening in ("C8 a crash", "C14 no route"):
        HAPPENINGS[happening](world)
        known = open_incidents(world, known)
        decided = world.plan()
        while not any(isinstance(step, StartRank) for step in decided.steps):  # its next attempt
            for step in decided.steps:
                world.obey(step)
            world.now += 60
            known = open_incidents(world, known)
            decided = world.plan()
        for step in decided.steps:
            world.obey(step)
    (incident,) = known.values()
    assert (incident.fault, incident.open) == (FaultClass.RANK_CRASH, True)
    assert world.plan().troubles == ()
    (finding,) = look(world, incidents=known.values()).findings
    assert finding.fault is FaultClass.LAUNCH_CONTEXT
    assert "exited with 76 (NoRoute)" in finding.seen


def test_what_is_said_of_a_group_now_is_not_said_again_of_its_incident() -> None:
    world = two_macs()
    HAPPENINGS["C8 a crash"](world)
    known = open_incidents(world, {})
    assert len(look(world, incidents=known.values()).findings) == 1


def test_of_a_mended_cable_an_incident_that_nobody_has_ended_yet_says_nothing() -> None:
    world = two_macs()
    learn_of_port(world, B, connected=False)
    known = open_incidents(world, {})
    learn_of_port(world, B, connected=True)
    assert [incident.open for incident in known.values()] == [True]
    assert look(world, incidents=known.values()).findings == ()


# --- what keeps a deployment from being served, whatever it is -----------------------------------------


def refused(
    reason: RefusedBecause, of: ObjectKey, text: str = "it is impossible", person: str = ""
) -> Examination:
    """The doctor's look at a sound cluster in which something is impossible."""
    world = two_macs()
    plan = Plan(refused=(Refusal(of, reason, text, person=person),))
    return examine(Snapshots(world.desired(), world.observed(), world.memory(), plan, world.now))


TINY = ObjectKey("ModelDeployment", "tiny")
REFUSED = Refusal(TINY, RefusedBecause.NO_NODES, "needs 2 nodes, 1 can be used")
OF_A_PERSON = (RefusedBecause.STOPPED, RefusedBecause.RESTARTING)


@pytest.mark.parametrize("reason", RefusedBecause)
def test_whatever_is_impossible_is_a_finding_unless_a_person_wants_it_so(reason: RefusedBecause) -> None:
    for key in (TINY, ObjectKey("Model", "tiny"), CLUSTER):
        findings = refused(reason, key).findings
        if reason in (
            *OF_A_PERSON,
            RefusedBecause.UNWRITABLE,
        ):  # the last is told of the controller's own files
            assert findings == ()
        else:
            (finding,) = findings
            assert (finding.objects, finding.seen, finding.title) == (
                (key,),
                "it is impossible",
                reason.value,
            )
            assert finding.person
            assert finding.steps
            assert finding.means


def test_it_says_how_many_replicas_serve_and_has_the_steps_by_themselves() -> None:
    text, person = "the hub does not answer", "reconciler get models"
    (finding,) = refused(RefusedBecause.NO_HUB, TINY, text, person).findings
    assert finding.means == "1 of 1 replicas serve"
    assert (finding.seen, finding.steps) == (text, person)


def test_a_machine_that_is_not_the_reason_hides_nothing() -> None:
    world = two_macs()
    BESIDE["C8 a full disk"](world)
    world.manifests = [
        deployment(nodes=5) if each.kind == "ModelDeployment" else each for each in world.manifests
    ]
    found = examine(
        Snapshots(world.desired(), world.observed(), world.memory(), Plan(refused=(REFUSED,)), world.now)
    )
    assert {each.title for each in found.findings} >= {"NotEnoughNodes"}


@pytest.mark.parametrize("broken", [True, False])
def test_a_machine_that_is_the_reason_is_told_and_not_what_follows_from_it(broken: bool) -> None:
    world = two_macs()
    if broken:
        BESIDE["C8 a full disk"](world)
    plan = replace(world.plan(), refused=(REFUSED,))
    found = examine(Snapshots(world.desired(), world.observed(), world.memory(), plan, world.now))
    assert [each.nodes for each in found.findings] == [(B,) if broken else ()]


# --- the same of several machines -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "steps"),
    [
        ("DiskLocked", "ssh node-a and type the password; ssh node-b and type the password"),
        ("LocalNetworkPrivacy", "allow the terminal"),
    ],
)
def test_machines_that_deny_access_for_one_reason_are_one_finding(reason: str, steps: str) -> None:
    world = two_macs()
    for name in (A, B):
        world.lose(name)
        remedy = f"ssh {name} and type the password" if reason == "DiskLocked" else "allow the terminal"
        world.lost[name] = replace(
            world.lost[name], barred=reason, problem=f"{name} is closed", remedy=remedy
        )
    (found,) = [each for each in look(world).findings if each.fault is FaultClass.HOST_UNREACHABLE]
    assert found.nodes == (A, B)
    assert [key.name for key in found.objects] == [A, B, "tiny"], "and the group that suffers"
    assert f"{A}, {B}" in found.seen
    assert (found.steps, found.person) == (steps, True)


def test_machines_that_deny_access_for_different_reasons_are_two() -> None:
    world = two_macs()
    for name, reason in ((A, "DiskLocked"), (B, "LoginRefused")):
        world.lose(name)
        world.lost[name] = replace(world.lost[name], barred=reason, problem=f"{name} is closed", remedy=name)
    found = [each for each in look(world).findings if each.fault is FaultClass.HOST_UNREACHABLE]
    assert [(each.objects[0].name, each.steps) for each in found] == [(A, A), (B, B)]
