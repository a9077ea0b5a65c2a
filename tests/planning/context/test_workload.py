"""The spec that a replica is served with, and its hash."""

from __future__ import annotations

import pytest

from reconciler.planning.context import workload
from reconciler.resources import Model, ModelDeployment
from reconciler.state import DeploymentName, Desired, ReplicaId
from tests.worlds import deployment, model

FIRST = ReplicaId(DeploymentName("tiny"), 0)
DESIRED = Desired.of("r1", [model(), deployment()])
WANTED, MODEL = DESIRED.deployments[FIRST.deployment], DESIRED.models["tiny"]
EARLIER, OTHER = deployment(serving={"maxBatch": 4}), model(path="other")


@pytest.mark.parametrize(
    "spec", [(EARLIER, MODEL), (WANTED, OTHER), (EARLIER, OTHER)], ids=["deployment", "model", "both"]
)
def test_a_replica_that_is_served_with_an_earlier_spec_has_the_hash_of_that_one(
    spec: tuple[ModelDeployment, Model],
) -> None:
    found = workload.of(DESIRED, FIRST, *spec)
    assert (found.deployment, found.model) == spec
    assert found.spec_hash != workload.of(DESIRED, FIRST, WANTED, MODEL).spec_hash


def test_a_replica_that_no_manifest_asks_for_has_the_spec_that_it_is_given() -> None:
    replica = ReplicaId(DeploymentName("gone"), 0)
    assert workload.of(DESIRED, replica, EARLIER, OTHER) == workload.Workload(replica, EARLIER, OTHER)


def test_the_workload_of_the_manifests_is_made_once() -> None:
    found = workload.of(DESIRED, FIRST, WANTED, MODEL)
    assert found is workload.of(DESIRED, FIRST, WANTED, MODEL) is workload.of_manifests(DESIRED, FIRST)
