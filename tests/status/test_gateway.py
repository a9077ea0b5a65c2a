"""Whether a Gateway is ready, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reconciler import status
from reconciler.doctor.examine import examine
from reconciler.planning.placement.references import dangling
from reconciler.resources import Node
from reconciler.resources.api_key import ApiKey
from reconciler.state import (
    Desired,
    GatewayAnswer,
    GatewayObservation,
    LimitsObservation,
    Memory,
    NodeGatewayObservation,
    NodeName,
    ObjectKey,
    Observed,
    Plan,
    RefusedBecause,
    ServedCertificate,
    Waiting,
    WaitingFor,
)
from reconciler.state.faults import told
from reconciler.state.gateways_on_nodes import nodes_without_gateway, ranks_out_of_reach
from reconciler.state.plan import GatewayRefusal
from reconciler.state.reports.status import ObjectStatus
from reconciler.status import Readiness, Snapshots, certificate, limits
from reconciler.status.gateway import readiness
from reconciler.wire.gateway import LimitsStore
from reconciler.wire.keys import AccessKey, KeyLimits, digest_of, hash_of
from tests.worlds import World, gateway, manifest, node

SSH = {
    "host": "b",
    "user": "me",
    "hostKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7",
}
URL = "http://127.0.0.1:8400/v1"


MADE = {"apiVersion": "reconciler/v1alpha1", "kind": "ApiKey"}


def door_keys(keys: list[ApiKey]) -> tuple[AccessKey, ...]:
    """The keys as the routes have them."""
    return status.door(gateway(auth={"mode": "keys"}), keys).keys


def ready(seen: GatewayObservation | None, *others: NodeGatewayObservation) -> Readiness:
    observed = Observed({}, seen, {each.node: each for each in others})
    return readiness("main", Snapshots(Desired(""), observed, Memory(token=0), Plan(), 0.0))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (None, (False, "GatewayDown", "the gateway process is not running")),
        (GatewayObservation(7, None), (False, "NotListening", "the gateway is not listening")),
        (
            GatewayObservation(7, URL),
            (False, "NotAsked", f"it has begun to listen at {URL}, and has not been asked there yet"),
        ),
        (GatewayObservation(7, URL, door=GatewayAnswer(True)), (True, "Listening", URL)),
        (GatewayObservation(7, URL, door=GatewayAnswer(False)), (True, "Listening", URL)),
        (
            GatewayObservation(7, URL, shortage="only few", door=GatewayAnswer(True)),
            (True, "Listening", f"{URL}; only few"),
        ),
        (
            GatewayObservation(7, URL, door=GatewayAnswer(False, problem="no answer within 2 s")),
            (
                False,
                "GatewaySilent",
                f"it does not answer at {URL}: no answer within 2 s; see: reconciler logs --gateway",
            ),
        ),
        (
            GatewayObservation(7, URL, door=GatewayAnswer(False, ("llama", "qwen"))),
            (
                False,
                "NoGroupConnected",
                f"it answers at {URL}, but is connected to no group of llama, qwen; see: reconciler get deployments",
            ),
        ),
    ],
)
def test_a_gateway_is_ready_when_it_says_so_at_its_own_address(
    seen: GatewayObservation | None, expected: tuple[bool, str, str]
) -> None:
    assert ready(seen)[:3] == expected


def test_a_certificate_that_is_gone_at_a_restart_is_said_with_what_to_do() -> None:
    world = World([gateway(tls=TLS)])
    problem = "/tls/key.pem cannot be read: No such file or directory"
    seen = GatewayObservation(
        7,
        URL,
        certificate=ServedCertificate((), None, problem),
        door=GatewayAnswer(False, problem="no answer: EOF"),
    )
    found = readiness("main", Snapshots(world.desired(), Observed({}, seen), Memory(token=0), Plan(), NOW))
    assert (found.ready, found.reason) == (False, "CertificateUnusable")
    assert found.message == f"nobody can connect to {URL}: {problem}"
    assert found.person.startswith("put a good certificate")
    assert "its key into /tls/key.pem" in found.person


NOW = 1_800_000_000.0
DAY = 86_400.0
TLS = {"certificate": "/tls/chain.pem", "key": "/tls/key.pem"}


def at(days: float | None, problem: str = "", now: float = NOW) -> Snapshots:
    """A Gateway with a certificate that ends so many days after ``NOW``."""
    world = World([gateway(tls=TLS)])
    expires_at = None if days is None else NOW + days * DAY
    shown = ServedCertificate(("ai.example.com",), expires_at, problem)
    seen = GatewayObservation(7, URL, certificate=shown, door=GatewayAnswer(True))
    return Snapshots(world.desired(), Observed({}, seen), Memory(token=0), Plan(), now)


@pytest.mark.parametrize(
    ("days", "problem", "reason", "says"),
    [
        (31, "", "CertificateGood", "is good until 2027-02-15"),
        (29, "", "ExpiresWithin30Days", "expires on 2027-02-13; to do: put a good certificate"),
        (6, "", "ExpiresWithin7Days", "into /tls/chain.pem and its key into /tls/key.pem"),
        (-1, "", "CertificateExpired", "expired on 2027-01-14, so that clients refuse it"),
        (
            90,
            "the key is not that one",
            "CertificateNotReplaced",
            "the key is not that one; the certificate for",
        ),
        (None, "no file", "CertificateUnusable", "nobody can connect: no file; to do: put a good"),
    ],
)
def test_a_certificate_is_told_of_while_there_is_time_and_what_to_do(
    days: float | None, problem: str, reason: str, says: str
) -> None:
    snapshots = at(days, problem)
    (found,) = certificate.conditions("main", snapshots)
    assert (found.reason, found.status) == (reason, reason != "CertificateGood")
    assert says in told(found.message, found.person)
    findings = [each for each in examine(snapshots).findings if each.title == "Certificate"]
    assert [each.person for each in findings] == [True] * found.status
    for finding in findings:
        assert (finding.code, "/tls/chain.pem" in finding.steps) == ("", True)


def test_each_step_towards_its_end_is_one_event() -> None:
    before: Mapping[ObjectKey, ObjectStatus] = {}
    told = []
    for day in range(40):
        found = at(35, now=NOW + day * DAY)
        after = status.statuses(found, before)
        told += [
            event.reason for event in status.transitions(before, after, found) if "Expire" in event.reason
        ]
        before = after
    assert told == ["ExpiresWithin30Days", "ExpiresWithin7Days", "CertificateExpired"]


def test_the_status_has_names_and_the_end_and_without_tls_neither() -> None:
    snapshots = at(0)
    found = readiness("main", snapshots).extra["certificate"]
    assert found == {"names": ["ai.example.com"], "expires": "2027-01-15T08:00:00Z", "problem": None}
    plain = GatewayObservation(7, URL, door=GatewayAnswer(True))
    assert "certificate" not in ready(plain).extra


def test_gateways_on_other_nodes_are_listed_with_what_is_wrong_with_them() -> None:
    others = (
        NodeGatewayObservation(NodeName("b"), "0.0.0.0:8400", 5, 3),
        NodeGatewayObservation(NodeName("c"), problem="no answer"),
    )
    found = ready(GatewayObservation(7, URL, door=GatewayAnswer(True)), *others)
    assert (found.ready, found.message) == (True, f"{URL}; on c: no answer")
    assert found.extra["others"] == [
        {"node": "b", "listen": "0.0.0.0:8400", "pid": 5, "routes": 3, "problem": None, "limits": None},
        {"node": "c", "listen": None, "pid": None, "routes": 0, "problem": "no answer", "limits": None},
    ]


def test_one_on_another_node_that_does_not_serve_stalls_the_gateway_and_hides_nothing_of_its_own() -> None:
    refused = GatewayRefusal(
        ObjectKey("Gateway", "main"), RefusedBecause.NO_GATEWAY, "the gateway on b", node=NodeName("b")
    )

    waiting = Waiting(refused.object, WaitingFor.AGENT, "the gateway on c")

    def told(door: GatewayAnswer) -> dict[str, tuple[bool, str]]:
        snapshots = Snapshots(
            Desired("r", gateway=gateway()),
            Observed({}, GatewayObservation(7, URL, door=door)),
            Memory(token=0),
            Plan(refused=(refused,), waiting=(waiting,)),
            1e3,
        )
        (found,) = status.statuses(snapshots, {}).values()
        return {each.type: (each.status, each.reason) for each in found.conditions}

    assert told(GatewayAnswer(True))["Ready"] == (True, "Listening")
    assert told(GatewayAnswer(True))["Stalled"] == (True, "GatewayNotRunning")
    assert told(GatewayAnswer(True))["Reconciling"] == (True, "AgentNotReached")
    silent = told(GatewayAnswer(False, problem="no answer"))
    assert (silent["Ready"], silent["Reconciling"]) == ((False, "GatewaySilent"), (False, "Settled"))


def test_gateways_on_other_nodes_say_which_ranks_they_cannot_reach_and_which_nodes_there_are_not() -> None:
    nodes = {NodeName("mac-1"): node("mac-1"), NodeName("b"): manifest(Node, "b", ssh=SSH)}
    wanted = gateway(auth={"mode": "keys"}, nodes=["b", "mac-1", "c"])
    seen = GatewayObservation(7, URL, door=GatewayAnswer(True))
    desired = Desired("", nodes=nodes, gateway=wanted)
    found = readiness("main", Snapshots(desired, Observed({}, seen), Memory(token=0), Plan(), 0.0))
    assert found.ready
    assert 'spec.nodes names "c", and there is no such Node' in found.message
    assert 'spec.nodes names "mac-1", which is the controller\'s own machine' in found.message
    assert "gateways on other nodes cannot reach ranks on mac-1 (local: {})" in found.message
    assert dangling(desired, {ObjectKey("Gateway", "main")}) == [
        f"gateway/main: {text}"
        for text in (*nodes_without_gateway(wanted, nodes), *ranks_out_of_reach(wanted, nodes))
    ]


def test_a_gateway_with_other_keys_than_those_in_force_is_behind_until_it_has_them() -> None:
    mine = [
        ApiKey.model_validate({**MADE, "metadata": {"name": name}, "spec": {"hash": hash_of(name)}})
        for name in "ab"
    ]

    def behind(auth: str, *known: str | None) -> list[str | None]:
        desired = Desired(
            "",
            gateway=gateway(auth={"mode": auth}),
            others={ObjectKey("ApiKey", key.metadata.name): key for key in mine},
        )
        names = [NodeName(f"n{number}") for number in range(len(known) - 1)]
        others = {
            name: NodeGatewayObservation(name, keys=each) for name, each in zip(names, known[1:], strict=True)
        }
        observed = Observed({}, GatewayObservation(7, URL, keys=known[0]), others)
        found = status.behind_on_keys(Snapshots(desired, observed, Memory(token=0), Plan(), 0.0))
        return [node for node, _ in found]

    both, one = digest_of(door_keys(mine)), digest_of(door_keys(mine[:1]))
    assert behind("keys", both, both) == []
    assert behind("keys", one, both, "") == [None, "n1"]
    assert behind("keys", both, one, both) == ["n0"]
    assert behind("keys", None, None) == []
    assert behind("none", one, one) == []
    away = NodeGatewayObservation(NodeName("c"), problem="no route to host")
    observed = Observed({}, GatewayObservation(7, URL, keys=both), {away.node: away})
    desired = Desired("", gateway=gateway(auth={"mode": "keys"}))
    found = status.behind_on_keys(Snapshots(desired, observed, Memory(token=0), Plan(), 0.0))
    assert (NodeName("c"), "no route to host") in found, "this controller has never reached it"
    del mine[1]
    assert behind("keys", one, both) == ["n0"]


# --- limits of keys ------------------------------------------------------------------------------------


STORE = {"store": {"address": "limits.example.com:6379"}}
SHARED = LimitsObservation(2, "limits.example.com:6379", shared=True)
AWAY = LimitsObservation(2, "limits.example.com:6379", problem="connection refused")


def divided(seen: LimitsObservation | None, there: LimitsObservation | None, **spec: object) -> list[str]:
    """What is said of limits by a gateway that has another one beside it: the condition's status, reason, and message."""
    wanted = gateway(auth={"mode": "keys"}, nodes=["b"], **spec)
    other = NodeGatewayObservation(NodeName("b"), limits=there)
    observed = Observed({}, GatewayObservation(7, URL, limits=seen), {other.node: other})
    snapshots = Snapshots(Desired("", gateway=wanted), observed, Memory(token=0), Plan(), 0.0)
    return [
        f"{each.status} {each.reason}: {told(each.message, each.person)}"
        for each in limits.conditions("main", snapshots)
    ]


def test_several_gateways_without_a_store_say_that_each_has_its_share() -> None:
    seen = LimitsObservation(2)
    assert divided(seen, seen) == [
        "True NoStore: each gateway grants a share of every limit, 1/2; to count together, declare a store: spec.limits.store"
    ]


def test_gateways_with_a_store_say_whether_they_count_together() -> None:
    assert divided(None, None, limits=STORE) == ["False NotAskedYet: "]
    assert divided(SHARED, SHARED, limits=STORE) == [
        "False LimitsShared: all gateways count together in limits.example.com:6379"
    ]
    (said,) = divided(SHARED, AWAY, limits=STORE)
    assert said.startswith(
        "True StoreAway: the gateway on b cannot use the store of limits: connection refused; to do: see that"
    )
    assert said.endswith("and grants a share of every limit, 1/2 meanwhile")


def test_routes_name_the_store_and_have_all_of_each_limit() -> None:
    store = {
        "address": "[::1]:6379", "user": "limits", "passwordFile": "~/word", "tls": {"authority": "/ca.pem"}
    }  # fmt: skip
    key = manifest(ApiKey, "webui", hash="sha256:" + "0" * 64, limits={"requestsPerMinute": 7})
    routes = status.door(gateway(auth={"mode": "keys"}, nodes=["b"], limits={"store": store}), [key])
    assert routes.limits_store == LimitsStore("[::1]:6379", "reconciler", "limits", "~/word", True, "/ca.pem")
    assert routes.keys[0].limits == KeyLimits(requests_per_minute=7)
