"""What the console asks for: decided as commands decide it, and said before as it is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.controller.admin.operating import Operating
from reconciler.errors import Invalid, Refused
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import MIRROR, OPERATIONS, ClusterRepo
from reconciler.state import Memory, Observed, Plan
from reconciler.wire.admin import Operate
from reconciler.wire.answers import Operated
from tests.source.conftest import AUTHOR

from .test_desired_state import Controller, node

pytestmark = pytest.mark.processes

URL = "https://git.example/cluster.git"
KEEPS_OFF = "a commit to main takes that back"


def parts(controller: Controller) -> Any:
    """As much of a controller as acts and the history need."""
    return SimpleNamespace(
        around=SimpleNamespace(source=controller.source),
        clock=lambda: controller.now,
        desired_state=controller.desired_state,
        store=controller.store,
        last=SimpleNamespace(observed=Observed({}, None), memory=Memory(token=0)),
    )


async def in_console(
    controller: Controller,
    verb: str,
    name: str,
    kind: str = "ModelDeployment",
    dry: bool = False,
    **more: Any,
) -> Operated:
    """Carry out what a page of the console asks for of an object, by default of a deployment."""

    class Loop:
        async def preview(self, _: object) -> Plan:
            return Plan()

        def look_at_source(self) -> None:
            pass

    asked = Operate(verb, kind, name, AUTHOR.name, AUTHOR.email, dry=dry, **more)
    return await Operating(parts(controller), cast(Any, Loop())).operate(asked)


@pytest.fixture
async def off(repo: ClusterRepo, controller: Controller) -> str:
    """The commit of a node whose manifest keeps ranks off it."""
    first = repo.commit(None, {"a.yaml": node("a").encode() + b"  unschedulable: true\n"}, "one", AUTHOR)
    await controller.look()
    return first


async def uncordoned(controller: Controller, dry: bool = False) -> Operated:
    return await in_console(controller, "uncordon", "a", "Node", dry)


async def test_what_only_a_manifest_says_is_taken_back_and_that_is_said_before(
    repo: ClusterRepo, controller: Controller, off: str
) -> None:
    foreseen = await uncordoned(controller, dry=True)
    assert (foreseen["changes"], foreseen["text"]) == (
        True,
        [f"its manifest keeps ranks off it: {KEEPS_OFF}"],
    )
    assert (await uncordoned(controller))["revision"] == repo.head() != off
    assert repo.head(OPERATIONS) is None


async def test_what_a_manifest_says_beside_an_operation_is_said_to_be_another_thing(
    repo: ClusterRepo, controller: Controller, off: str
) -> None:
    await in_console(controller, "cordon", "a", "Node")
    foreseen = await uncordoned(controller, dry=True)
    assert foreseen["text"] == [f"its manifest keeps ranks off it too: {KEEPS_OFF}"]
    run_git((f"--git-dir={repo.path}", "config", MIRROR, URL))
    foreseen = await uncordoned(controller, dry=True)
    (said,) = foreseen["text"]
    assert said.startswith(
        f"its manifest keeps ranks off it too, and main is a mirror: the truth is at {URL};"
    )
    assert (await uncordoned(controller))["revision"] == repo.head(OPERATIONS)
    assert repo.head() == off


async def test_of_a_mirror_what_only_a_manifest_says_is_refused_before_anything_is_offered(
    repo: ClusterRepo, controller: Controller, off: str
) -> None:
    run_git((f"--git-dir={repo.path}", "config", MIRROR, URL))
    for dry in (True, False):
        with pytest.raises(Refused) as refused:
            await uncordoned(controller, dry)
        assert refused.value.code == "Mirrored"
        assert str(refused.value).startswith(
            "the manifest of node/a keeps ranks off it, and main is a mirror: "
        )
    assert (repo.head(), repo.head(OPERATIONS)) == (off, None)


SERVED = """\
apiVersion: reconciler/v1alpha1
kind: Model
metadata: {name: tiny}
spec: {source: {path: tiny}}
---
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata: {name: tiny}
spec: {model: tiny}
"""


@pytest.fixture
async def served(repo: ClusterRepo, controller: Controller) -> str:
    """The commit of a deployment with one replica."""
    first = repo.commit(None, {"tiny.yaml": SERVED.encode()}, "one", AUTHOR)
    await controller.look()
    return first


async def test_a_number_for_good_is_one_commit_to_main_and_for_a_while_an_operation(
    repo: ClusterRepo, controller: Controller, served: str
) -> None:
    foreseen = await in_console(controller, "scale", "tiny", dry=True, replicas="3", seconds=3600.0)
    assert (foreseen["branches"], repo.head(OPERATIONS)) == (["operations"], None)
    while_ = await in_console(controller, "scale", "tiny", replicas="3", seconds=3600.0)
    assert (while_["revision"], repo.head()) == (repo.head(OPERATIONS), served)
    foreseen = await in_console(controller, "scale", "tiny", dry=True, replicas="2")
    assert foreseen["branches"] == ["main", "operations"], "one for good ends the one for a while"
    good = await in_console(controller, "scale", "tiny", replicas="2")
    assert good["revision"] == repo.head() != served
    assert b"replicas: 2" in repo.read(good["revision"] or "")["tiny.yaml"]
    assert [*repo.read(repo.head(OPERATIONS) or "", OPERATIONS)] == []
    again = await in_console(controller, "scale", "tiny", replicas="2")
    assert (again["changes"], repo.head()) == (False, good["revision"])


async def test_of_a_mirror_a_number_is_an_operation_and_no_change_of_a_manifest_is_taken_back(
    repo: ClusterRepo, controller: Controller, served: str
) -> None:
    run_git((f"--git-dir={repo.path}", "config", MIRROR, URL))
    done = await in_console(controller, "scale", "tiny", replicas="2")
    assert (done["branches"], repo.head()) == (["operations"], served)
    assert done["text"][0].startswith("main is a mirror")
    for dry in (True, False):
        with pytest.raises(Refused) as refused:
            await in_console(controller, "undo", "tiny", dry=dry)
        assert refused.value.code == "Mirrored"


async def test_an_undo_is_the_commit_of_rollout_undo_and_says_what_it_takes_back(
    repo: ClusterRepo, controller: Controller, served: str
) -> None:
    scaled = (await in_console(controller, "scale", "tiny", replicas="2"))["revision"] or ""
    foreseen = await in_console(controller, "undo", "tiny", dry=True)
    assert foreseen["text"][0].startswith(f'would undo {scaled[:10]} "Scale modeldeployment/tiny to 2", by ')
    assert foreseen["message"].startswith('Revert "Scale modeldeployment/tiny to 2"')
    assert repo.head() == scaled
    await in_console(controller, "undo", "tiny", to_revision=served[:10])
    assert repo.read(repo.head() or "")["tiny.yaml"] == SERVED.encode()


@pytest.mark.parametrize("kind", ["ApiKey", "Gateway", "Notifier", "SyncWindow", "Cluster"])
async def test_no_undo_gives_rights(controller: Controller, served: str, kind: str) -> None:
    with pytest.raises(Refused) as refused:
        await in_console(controller, "undo", "main", kind)
    assert refused.value.code == "Unknown"


@pytest.mark.parametrize("number", ["", "-1", "65", "x"])
async def test_what_is_no_number_of_replicas_changes_nothing(
    repo: ClusterRepo, controller: Controller, served: str, number: str
) -> None:
    for seconds in (None, 60.0):
        with pytest.raises(Invalid, match="expected a number of replicas from 0 to 64"):
            await in_console(controller, "scale", "tiny", replicas=number, seconds=seconds)
    assert (repo.head(), repo.head(OPERATIONS)) == (served, None)
