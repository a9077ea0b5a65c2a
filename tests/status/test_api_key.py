"""The status of an ApiKey follows from its manifest, the deployments and the clock alone."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from reconciler import status
from reconciler.resources.api_key import ApiKey
from reconciler.state import Memory, Observed, Plan
from reconciler.state.desired import Desired
from reconciler.state.identity import ObjectKey
from reconciler.status import Snapshots
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


def test_a_key_without_an_end_never_expires() -> None:
    assert ready(key(), 1e12) == (True, "Valid")


def test_a_key_for_a_model_that_is_not_there_says_so() -> None:
    assert ready(key(models=("large",))) == (True, "Valid")
    assert ready(key(models=("large", "small"))) == (False, "DeploymentNotFound")
