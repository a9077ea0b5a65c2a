"""The status of an ApiKey follows from its manifest, the deployments and the clock alone."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler import status
from reconciler.resources import Gateway
from reconciler.resources.api_key import ApiKey
from reconciler.state import GatewayObservation, Memory, Observed, Plan
from reconciler.state.desired import Desired
from reconciler.state.identity import ObjectKey
from reconciler.status import Snapshots
from reconciler.wire.keys import AccessKey, KeyLimits, KeyUsage, SecretHash
from tests.worlds import deployment

KEY = ObjectKey("ApiKey", "webui")
EXPIRES = datetime.datetime(2027, 1, 31, tzinfo=datetime.UTC)
HASH = "sha256:" + 64 * "0"


def key(**spec: Any) -> ApiKey:
    body = {"apiVersion": "reconciler/v1alpha1", "kind": "ApiKey", "metadata": {"name": "webui"}}
    return ApiKey.model_validate({**body, "spec": {"hash": HASH, **spec}})


def ready(found: ApiKey, now: float = 0.0) -> tuple[bool, str]:
    desired = Desired.of("1", [found, deployment("large")])
    snapshots = Snapshots(desired, Observed(), Memory(token=0), Plan(), now)
    condition = status.statuses(snapshots, {})[KEY].condition("Ready")
    assert condition is not None
    return condition.status, condition.reason


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-1.0, (True, "Valid")), (0.0, (False, "Expired")), (1.0, (False, "Expired"))]
)
def test_a_key_is_valid_until_the_moment_it_expires(seconds: float, expected: tuple[bool, str]) -> None:
    assert ready(key(expires=EXPIRES), EXPIRES.timestamp() + seconds) == expected


def test_a_revoked_key_is_not_ready_whatever_else_it_is() -> None:
    assert ready(key(revoked=True, expires=EXPIRES), EXPIRES.timestamp() + 1) == (False, "Revoked")


def shown(found: ApiKey, used: KeyUsage, now: float) -> tuple[str, Mapping[str, object]]:
    """The message and the fields of the status, of a key that has used something, where keys are asked for."""
    observed = Observed(gateway=GatewayObservation(1, "http://127.0.0.1:8400/v1", usage=(used,)))
    desired = Desired.of("1", [found, gateway()])
    status_ = status.statuses(Snapshots(desired, observed, Memory(token=0), Plan(), now), {})[KEY]
    condition = status_.condition("Ready")
    assert condition is not None
    return condition.message, status_.extra


def gateway() -> Gateway:
    return Gateway.model_validate(
        {
            "apiVersion": "reconciler/v1alpha1",
            "kind": "Gateway",
            "metadata": {"name": "main"},
            "spec": {"listen": "0.0.0.0:8400", "auth": {"mode": "keys"}},
        }
    )


def test_the_status_has_what_was_used_today() -> None:
    used = KeyUsage("webui", 20_000, tokens=17, requests=3, last_used=20_000 * 86_400 + 5)
    message, extra = shown(key(), used, 20_000 * 86_400 + 50.0)
    assert message == "the key is valid"
    assert (extra["tokensToday"], extra["requestsToday"], extra["lastUsedAt"]) == (17, 3, used.last_used)
    _, extra = shown(key(), used, 20_001 * 86_400 + 50.0)
    assert (extra["tokensToday"], extra["requestsToday"], extra["lastUsedAt"]) == (0, 0, used.last_used)
    _, extra = shown(key(), KeyUsage("other", 20_000, 17), 20_000 * 86_400 + 50.0)
    assert (extra["tokensToday"], extra["requestsToday"], extra["lastUsedAt"]) == (0, 0, None)


def test_an_earlier_secret_that_is_still_good_is_told() -> None:
    rotated = key(previous=({"hash": HASH, "until": EXPIRES},))
    message, _ = shown(rotated, KeyUsage("webui", 0), EXPIRES.timestamp() - 1)
    assert (
        message
        == "the key is valid; its secret from before the last rotation is good until 2027-01-31T00:00:00Z"
    )
    assert shown(rotated, KeyUsage("webui", 0), EXPIRES.timestamp())[0] == "the key is valid"


def test_the_gateway_gets_hashes_limits_and_ends_and_no_key_where_none_is_asked_for() -> None:
    rotated = key(
        previous=({"hash": "sha256:" + 64 * "1", "until": EXPIRES},),
        models=("large",),
        limits={"requestsPerMinute": 5, "tokensPerDay": 7},
        expires=EXPIRES,
    )
    at = EXPIRES.timestamp()
    door = status.door(gateway(), [rotated])
    assert (door.listen, door.auth) == ("0.0.0.0:8400", "keys")
    secrets = (SecretHash(HASH), SecretHash("sha256:" + 64 * "1", at))
    assert door.keys == (AccessKey("webui", secrets, ("large",), KeyLimits(5, None, 7, None), at),)
    body = gateway().model_dump(mode="json", by_alias=True)
    body["spec"] |= {"listen": "127.0.0.1:8400", "auth": {"mode": "none"}}
    assert status.door(Gateway.model_validate_json(json.dumps(body)), [rotated]).keys == ()


def test_a_key_without_an_end_never_expires() -> None:
    assert ready(key(), 1e12) == (True, "Valid")


def test_a_key_for_a_model_that_is_not_there_says_so() -> None:
    assert ready(key(models=("large",))) == (True, "Valid")
    assert ready(key(models=("large", "small"))) == (False, "DeploymentNotFound")
