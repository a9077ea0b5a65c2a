"""Whether a Gateway is ready, and what to do where it is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler import status
from reconciler.doctor.examine import examine
from reconciler.resources.api_key import ApiKey
from reconciler.state import (
    Desired,
    FrontDoor,
    FrontObservation,
    GatewayObservation,
    Memory,
    NodeName,
    ObjectKey,
    Observed,
    Plan,
    ServedCertificate,
)
from reconciler.state.reports.status import ObjectStatus
from reconciler.status import Readiness, Snapshots, certificate
from reconciler.status.gateway import readiness
from tests.worlds import World, gateway, manifest

URL = "http://127.0.0.1:8400/v1"


def ready(seen: GatewayObservation | None) -> Readiness:
    observed = Observed({}, seen)
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
        (GatewayObservation(7, URL, door=FrontDoor(True)), (True, "Listening", URL)),
        (GatewayObservation(7, URL, door=FrontDoor(False)), (True, "Listening", URL)),
        (
            GatewayObservation(7, URL, shortage="only few", door=FrontDoor(True)),
            (True, "Listening", f"{URL}; only few"),
        ),
        (
            GatewayObservation(7, URL, door=FrontDoor(False, problem="no answer within 2 s")),
            (
                False,
                "GatewaySilent",
                f"it does not answer at {URL}: no answer within 2 s; see: reconciler logs --gateway",
            ),
        ),
        (
            GatewayObservation(7, URL, door=FrontDoor(False, ("llama", "qwen"))),
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


NOW = 1_800_000_000.0
DAY = 86_400.0
TLS = {"certificate": "/tls/chain.pem", "key": "/tls/key.pem"}


def at(days: float | None, problem: str = "", now: float = NOW) -> Snapshots:
    """A Gateway with a certificate that ends so many days after ``NOW``."""
    world = World([gateway(tls=TLS)])
    expires_at = None if days is None else NOW + days * DAY
    shown = ServedCertificate(("ai.example.com",), expires_at, problem)
    seen = GatewayObservation(7, URL, certificate=shown, door=FrontDoor(True))
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
    assert says in found.message
    findings = [each for each in examine(snapshots).findings if each.title == "Certificate"]
    assert [each.person for each in findings] == [True] * found.status
    for finding in findings:
        assert (finding.code, "/tls/chain.pem" in finding.steps) == ("", True)


def test_each_step_towards_its_end_is_one_event() -> None:
    before: Mapping[ObjectKey, ObjectStatus] = {}
    told = []
    for day in range(40):
        after = status.statuses(at(35, now=NOW + day * DAY), before)
        told += [event.reason for event in status.transitions(before, after, NOW) if "Expire" in event.reason]
        before = after
    assert told == ["ExpiresWithin30Days", "ExpiresWithin7Days", "CertificateExpired"]


def test_the_status_has_names_and_the_end_and_without_tls_neither() -> None:
    snapshots = at(0)
    found = readiness("main", snapshots).extra["certificate"]
    assert found == {"names": ["ai.example.com"], "expires": "2027-01-15T08:00:00Z", "problem": None}
    plain = GatewayObservation(7, URL, door=FrontDoor(True))
    assert "certificate" not in ready(plain).extra


def test_gateways_on_other_nodes_are_listed_with_what_is_wrong_with_them() -> None:
    others = (
        FrontObservation(NodeName("b"), "0.0.0.0:8400", 5, 3),
        FrontObservation(NodeName("c"), problem="no answer"),
    )
    found = ready(GatewayObservation(7, URL, others=others, door=FrontDoor(True)))
    assert (found.ready, found.message) == (True, f"{URL}; on c: no answer")
    assert found.extra["others"] == [
        {"node": "b", "listen": "0.0.0.0:8400", "pid": 5, "routes": 3, "problem": None},
        {"node": "c", "listen": None, "pid": None, "routes": 0, "problem": "no answer"},
    ]


@given(st.integers(1, 10_000), st.integers(0, 16))
def test_all_gateways_together_allow_a_key_no_more_than_its_limit_or_one_each(limit: int, more: int) -> None:
    key = manifest(ApiKey, "webui", hash="sha256:" + "0" * 64, limits={"requestsPerMinute": limit})
    nodes = [f"n{number}" for number in range(more)]
    (access,) = status.door(gateway(auth={"mode": "keys"}, nodes=nodes), [key]).keys
    share = access.limits.requests_per_minute
    assert share is not None
    assert share >= 1
    assert share * (more + 1) <= max(limit, more + 1)
    assert access.limits.tokens_per_minute is None
