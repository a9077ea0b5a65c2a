"""Whether a Gateway is ready, and what to do where it is not."""

from __future__ import annotations

import pytest

from reconciler.state import Desired, FrontDoor, GatewayObservation, Memory, Observed, Plan
from reconciler.status import Readiness, Snapshots
from reconciler.status.gateway import readiness

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
