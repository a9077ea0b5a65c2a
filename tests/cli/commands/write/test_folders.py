"""Every command that writes, in a home whose manifests are in a folder of a larger repository: the same as in a home that
has nothing else, and still there after a restart of the controller."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.admission.overlay import overlay
from reconciler.cli.core.targets import labels_of
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.mirror.looking import Remote, configure
from reconciler.source.sources import GitSource
from tests.cli import bodies
from tests.cli.conftest import MANIFESTS, Cli, Controller
from tests.cli.test_reference import COMMANDS
from tests.source.mirror.conftest import judged, made_remote

from .test_writing import head, newest, template

__all__ = ["template"]

FOLDER = "clusters/studio [1]"
LINES = {
    "apply": ("apply -f {more}",),
    "delete": ("delete node/node-b",),
    "edit": ("edit deployment/tiny",),
    "patch": ('patch deployment tiny -p {{"spec":{{"replicas":2}}}}',),
    "label": ("label node/node-a room=2",),
    "annotate": ("annotate node/node-a why=new",),
    "scale": ("scale deployment/tiny --replicas=2 --for=1h",),
    "rollout pause": ("rollout pause deployment/tiny",),
    "rollout restart": ("rollout restart deployment/tiny",),
    "rollout resume": ("rollout pause deployment/tiny", "rollout resume deployment/tiny"),
    "rollout undo": ("apply -f {more}", "apply -f {changed}", "rollout undo node/more"),
    "model update": (
        "apply -f {more}",
        "model update hub --revision=0123456789012345678901234567890123456789",
    ),
    "key create": ("key create ada",),
    "key revoke": ("key create ada", "key revoke ada"),
    "key rotate": ("key create ada", "key rotate ada"),
    "cordon": ("cordon node-a --reason fans",),
    "uncordon": ("cordon node-a", "uncordon node-a"),
    "drain": ("drain node-a --force --timeout=1s",),
    "reboot": ("reboot node-a --force --timeout=1s",),
    "stop": ("stop --timeout=1s",),
    "start": ("stop --timeout=1s", "start"),
    "suspend": ("suspend deployment/tiny",),
    "resume": ("suspend --all", "resume --all"),
    "undo": ("cordon node-a", "undo cordon.node.node-a"),
    "override": ("override nights --for=1h --reason fire",),
    "approve": ("approve 1f0c",),
}
OF_RUNS = {"cancel", "restart"}
"""They need a run that a controller reports: test_job_runs.py types them."""
HELD_REVISION = "1f0c2a9b3d" + "0" * 30
OF_THE_WISHES = {
    *("apply", "delete", "edit", "patch", "label", "annotate", "rollout undo"),
    *("model update", "key create", "key revoke", "key rotate"),
}
"""What commits to `main`, and is refused where that is a mirror."""
WINDOW = """\
apiVersion: reconciler/v1alpha1
kind: SyncWindow
metadata: {name: nights}
spec: {kind: deny, schedule: "0 0 1 1 *", duration: 1h, timeZone: UTC, nodes: [absent]}
"""
MORE = """\
apiVersion: reconciler/v1alpha1
kind: Node
metadata: {name: more}
spec: {local: {}}
---
apiVersion: reconciler/v1alpha1
kind: Model
metadata: {name: hub}
spec: {source: {huggingface: {repo: org/llama, revision: 1f0c2a9b3d1f0c2a9b3d1f0c2a9b3d1f0c2a9b3d}}}
"""


def test_every_command_that_writes_has_a_line_here() -> None:
    writing = {
        path
        for path, context in COMMANDS.items()
        if {"--dry-run"} <= {word for each in context.command.params for word in each.opts}
        and path.split()[0] not in ("node", "install", "uninstall")  # these write to machines
    }
    assert writing - OF_RUNS == set(LINES)


@pytest.fixture(scope="module")
def kinds_of_home(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The same manifests as the home's own, as a mirror, and both of a folder beside what others have."""
    found = {}
    for name, folder, mirror in (
        ("own", "", False),
        ("mirror", "", True),
        ("folder", FOLDER, False),
        ("mirrored folder", FOLDER, True),
    ):
        place = tmp_path_factory.mktemp("remote")
        remote = made_remote(place / "remote.git")
        for path in Path(MANIFESTS).glob("*.yaml"):
            remote.commits(path.read_text(), f"{folder}/{path.name}".lstrip("/"))
        remote.commits(WINDOW, f"{folder}/window.yaml".lstrip("/"))
        if folder:
            remote.commits("kind: Kustomization\n", "apps/kustomization.yaml")
            remote.commits("{{ .Values.name }}: [\n", "charts/templates/broken.yaml")
        assert remote.git("push", "--quiet", "origin", "HEAD:main")[0] == 0
        home = tmp_path_factory.mktemp("home") / "home"
        shutil.copytree(template, home)
        repo = ClusterRepo(home / "cluster.git")
        spec = GitRepositorySpec.model_validate(
            {"url": str(place / "remote.git"), "path": folder, "allowRewind": True}, by_alias=True
        )
        following = Remote(repo, judged, lambda: None, os.environ)
        following.configure(spec)
        assert following.look(spec, None, at_once=True).moved
        if not mirror:
            configure(repo, None)
        found[name] = home
    return found


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that makes a change. `edit` keeps it in the test's own folder where it is refused."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nsed -i "s/replicas: 1/replicas: 2/" "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(script))
    monkeypatch.setenv("EDITOR", str(script))


async def read(home: Path) -> tuple[Any, Any, Any]:
    """What a controller that starts now reads: the manifests, the operations, and the one laid over the other."""
    source = GitSource(ClusterRepo(home / "cluster.git"))
    revision, operations = await source.read(), await source.operations()
    manifests = [document.manifest for document in revision.documents]
    laid = overlay(manifests, operations.items, 0.0)
    await source.record_in_force(revision.id, operations.revision, {}, revision.folder)
    again = GitSource(ClusterRepo(home / "cluster.git"))
    before = await again.last_in_force()
    assert before is not None
    assert (before.id, before.documents) == (revision.id, revision.documents)
    assert await again.last_operations() == operations
    names = {(each.metadata.name, each.spec.verb, each.spec.reason) for each in operations.items}
    return {(each.kind, each.metadata.name) for each in manifests}, names, _without_times(laid.manifests)


def _without_times(manifests: Any) -> dict[tuple[str, str], Any]:
    bodies = {(each.kind, each.metadata.name): each.model_dump(mode="json") for each in manifests}
    for (kind, _), body in bodies.items():
        body["spec"].pop("restarted_at", None)
        if kind == "ApiKey":
            body["spec"] = {}
    return bodies


def without_ranks(home: Path, asked: Any) -> dict[str, Any]:
    """A controller's answer that has followed `main`: a node that was deleted there is gone."""
    items = [] if asked.kind == "Rank" else bodies.objects(asked)["items"]
    there = labels_of(ClusterRepo(home / "cluster.git").read(head(home)))
    items = [item for item in items if item["kind"] != "Node" or ("Node", item["metadata"]["name"]) in there]
    for item in items:
        if item["kind"] == "Node":
            item["status"] |= {"bootId": "1", "agent": "reached"}
            item["spec"]["rebootFrom"] = "1"
    return {"items": items}


@pytest.mark.second_tier
@pytest.mark.usefixtures("editor")
@pytest.mark.parametrize("verb", LINES)
def test_a_command_does_the_same_wherever_the_manifests_are(
    verb: str, kinds_of_home: Mapping[str, Path], cli: Cli, controller: Controller, home: Path, tmp_path: Path
) -> None:
    at_rest = bodies.at_rest()["status"]
    held = {
        "revision": HELD_REVISION,
        "text": "held",
        "removes": ["node/a"],
        "runs": [],
        "of": 4,
        "command": "",
        "over": "",
    }
    controller.answers["status"] = lambda _: {
        **at_rest, "revision": head(home), "operations": newest(home), "held": held if verb == "approve" else None
    }  # fmt: skip
    controller.answers["get"] = partial(without_ranks, home)
    controller.answers["foresee"] = {"replicas": [], "plan": {"refused": []}}
    (tmp_path / "more.yaml").write_text(MORE)
    (tmp_path / "changed.yaml").write_text(MORE.replace("more}", "more, labels: {room: b}}"))
    names = {"more": str(tmp_path / "more.yaml"), "changed": str(tmp_path / "changed.yaml")}
    found = {}
    for kind, made in kinds_of_home.items():
        shutil.rmtree(home / "cluster.git", ignore_errors=True)
        shutil.copytree(made / "cluster.git", home / "cluster.git")
        before = asyncio.run(read(home))
        codes = [cli(*(word.format(**names) for word in line.split(" "))) for line in LINES[verb]]
        refused = verb in OF_THE_WISHES and "mirror" in kind
        if refused:
            assert "main is a mirror" in codes[0].err
        else:
            failed = [
                each.err for each in codes if each.code and "timed out" not in each.err
            ]  # no machine restarts
            assert failed == [], kind
        found[kind] = asyncio.run(read(home))
        if refused:
            assert found[kind] == before
            del found[kind]
        elif verb not in ("uncordon", "rollout resume", "start", "resume", "undo", "key revoke"):
            assert found[kind] != before or verb == "rollout restart", f"{verb} changed nothing in {kind}"
    for plain, folder in (("own", "folder"), ("mirror", "mirrored folder")):
        assert found.get(folder) == found.get(plain)
