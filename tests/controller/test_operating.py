"""What the console asks for: decided as commands decide it, and said before as it is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.controller.admin.operating import Operating
from reconciler.errors import Refused
from reconciler.source.git import hooks
from reconciler.source.git.process import run_git
from reconciler.source.git.repository import MIRROR, OPERATIONS, ClusterRepo
from reconciler.source.hook import objection_to
from reconciler.source.sources import GitSource
from reconciler.state import Plan
from reconciler.wire.admin import Operate
from tests.source.conftest import AUTHOR

from .test_desired_state import Controller, node

URL = "https://git.example/cluster.git"
KEEPS_OFF = "a commit to main takes that back"


@pytest.fixture
def repo(home: Path) -> ClusterRepo:
    """As commands open it: they check what they commit themselves, without the hook's process."""
    return ClusterRepo.create(home / "cluster.git", hooks.command(), objection_to)


@pytest.fixture
def controller(repo: ClusterRepo, home: Path) -> Iterator[Controller]:
    made = Controller(GitSource(repo), home / "store.db")
    yield made
    made.store.close()


def parts(controller: Controller) -> Any:
    """As much of a controller as acts and the history need."""
    return SimpleNamespace(
        around=SimpleNamespace(source=controller.source),
        clock=lambda: controller.now,
        desired_state=controller.desired_state,
        store=controller.store,
    )


async def in_console(
    controller: Controller, verb: str, name: str, kind: str = "ModelDeployment", dry: bool = False
) -> dict[str, Any]:
    """Carry out what a page of the console asks for of an object, by default of a deployment."""

    class Loop:
        async def preview(self, _: object) -> Plan:
            return Plan()

        def look_at_source(self) -> None:
            pass

    asked = Operate(verb, kind, name, AUTHOR.name, AUTHOR.email, dry=dry)
    return await Operating(parts(controller), cast(Any, Loop())).operate(asked)


@pytest.fixture
async def off(repo: ClusterRepo, controller: Controller) -> str:
    """The commit of a node whose manifest keeps ranks off it."""
    first = repo.commit(None, {"a.yaml": node("a").encode() + b"  unschedulable: true\n"}, "one", AUTHOR)
    await controller.look()
    return first


async def uncordoned(controller: Controller, dry: bool = False) -> dict[str, Any]:
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
