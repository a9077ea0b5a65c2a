"""What a revision removes is judged by one rule, whichever way it came and whoever asks: hook, loop, preview."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.admission.removals import ALL
from reconciler.controller.admin.preview import preview
from reconciler.controller.admin.pushes import Pushes
from reconciler.source.git.process import run_git
from reconciler.source.git.pushes import Push
from reconciler.source.git.repository import NO_COMMIT, REF, ClusterRepo
from reconciler.source.pushed import read_push
from reconciler.source.sources import DirectorySource
from reconciler.state import ObjectKey, Plan
from reconciler.status import Snapshots
from reconciler.wire.admin import Preview
from tests.source.conftest import Person

from .test_desired_state import Controller, node

pytestmark = pytest.mark.processes

API = "apiVersion: reconciler/v1alpha1\n"
TEXTS = {
    **{ObjectKey("Node", name): node(name) for name in ("a", "b", "c", "d")},
    ObjectKey("Model", "tiny"): API
    + "kind: Model\nmetadata: {name: tiny}\nspec: {source: {path: /models/tiny}}\n",
    **{
        ObjectKey("ModelDeployment", name): API
        + f"kind: ModelDeployment\nmetadata: {{name: {name}}}\nspec: {{model: tiny}}\n"
        for name in ("one", "two", "three")
    },
    ObjectKey("Gateway", "main"): API
    + 'kind: Gateway\nmetadata: {name: main}\nspec: {listen: "127.0.0.1:8400", auth: {mode: none}}\n',
}
ONE, MODEL = ObjectKey("ModelDeployment", "one"), ObjectKey("Model", "tiny")


def files(keys: Collection[ObjectKey], layout: random.Random) -> dict[str, bytes]:
    """The manifests of some objects, in files that a layout draws."""
    found: dict[str, list[str]] = {}
    for key in sorted(keys):
        found.setdefault(f"{layout.choice('xyz')}.yaml", []).append(TEXTS[key])
    return {name: "---\n".join(texts).encode() for name, texts in found.items()}


def commit(repo: ClusterRepo, contents: Mapping[str, bytes], words: Collection[str] = ()) -> str:
    """A commit on top of main, which nobody has pushed yet."""
    head = repo.head()
    gone = dict.fromkeys(repo.read(head) if head else {}, None)
    message = "Change\n\n" + "".join(f"Allow-Removal: {word}\n" for word in words)
    tree = repo._write_tree(head, {**gone, **contents})
    parents = ("-p", head) if head else ()
    environment = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    made = run_git(
        (f"--git-dir={repo.path}", "commit-tree", *parents, tree),
        stdin=message.encode(),
        environment=environment,
    )
    return made.decode().strip()


def move(repo: ClusterRepo, revision: str) -> None:
    """main is at a commit, as if no hook were there."""
    run_git((f"--git-dir={repo.path}", "update-ref", REF, revision))


class Loop:
    plan = Plan()

    async def preview(self, _: object) -> Plan:
        return Plan()


def parts(controller: Controller) -> Any:
    """As much of a controller as judges a push."""
    nothing = SimpleNamespace(gateway=None, nodes={})
    return SimpleNamespace(
        around=SimpleNamespace(source=controller.source),
        clock=lambda: controller.now,
        desired_state=controller.desired_state,
        store=controller.store,
        last=Snapshots(controller.desired_state.desired, cast(Any, nothing), cast(Any, None), Plan(), 0.0),
    )


async def pushed(controller: Controller, repo: ClusterRepo, revision: str, allow: str | None = None) -> str:
    """What a pusher is told of a commit: ``refused``, ``held`` or ``accepted``."""
    push = Push(repo.head() or NO_COMMIT, revision, REF)
    body = await Pushes(parts(controller), cast(Any, Loop())).foreseen(
        read_push(repo, push), () if allow is None else (allow or ALL,)
    )
    if not body["accept"]:
        assert "Allow-Removal:" in " ".join(body["lines"])
        return "refused"
    return "held" if any(line.startswith("reconciler: held:") for line in body["lines"]) else "accepted"


async def looked(controller: Controller) -> str:
    """What the loop makes of the newest commit."""
    hold = (await controller.look()).hold
    return "accepted" if hold is None else "refused" if hold.unsaid else "held"


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("seed", "steps"),
    [(1, 25), *(pytest.param(seed, 60, marks=pytest.mark.second_tier) for seed in (2, 3, 4))],
)
async def test_hook_loop_and_preview_say_the_same_of_what_a_revision_removes(
    seed: int, steps: int, controller: Controller, repo: ClusterRepo
) -> None:
    draw, everything = random.Random(seed), frozenset(TEXTS)
    move(repo, commit(repo, files(everything, draw)))
    await controller.look()
    met = set()
    for _ in range(steps):
        whole = repo.head()
        assert whole is not None
        deployments = [key for key in TEXTS if key.kind == "ModelDeployment"]
        controller.serving = {
            key for key in (*deployments, ObjectKey("Gateway", "main")) if draw.random() < 0.6
        }
        gone = set(draw.sample(sorted(TEXTS), draw.randint(0, 4)))
        gone -= {MODEL} if not gone.issuperset(deployments) else set()  # a push may not leave a name dangling
        said = {key.name for key in gone if draw.random() < 0.5}
        revision = commit(repo, files(everything - gone, draw), sorted(said))
        unsaid = {key for key in gone & controller.serving if key.name not in said}
        much = len(gone) > 0.3 * len(TEXTS)
        expected = "refused" if unsaid else "held" if much else "accepted"
        contents = {name: text.decode() for name, text in repo.read(revision).items()}
        asked = Preview(contents, allowed=tuple(sorted(said)))
        foreseen = await preview(parts(controller), cast(Any, Loop()), asked)
        assert foreseen["removes"] == [str(key) for key in sorted(gone)]
        assert foreseen["serving"] == [str(key) for key in sorted(unsaid)]
        assert foreseen["held"] == (much or bool(unsaid))
        assert await pushed(controller, repo, revision) == expected
        move(repo, revision)
        seen = await looked(controller)
        assert seen == ("held" if much and unsaid else expected)
        assert (controller.desired_state.desired.revision == revision) == (expected == "accepted")
        met.add(expected)
        move(repo, commit(repo, files(everything, draw)))  # everything is back
        assert await looked(controller) == "accepted"
    assert met == {"refused", "held", "accepted"}


async def test_what_serves_and_goes_with_its_model_is_refused_like_alone(
    controller: Controller, repo: ClusterRepo
) -> None:
    layout = random.Random(0)
    there = {ONE, MODEL, *(key for key in TEXTS if key.kind in ("Node", "Gateway"))}
    move(repo, commit(repo, files(there, layout)))
    await controller.look()
    controller.serving = {ONE}
    for gone in ({ONE}, {ONE, MODEL}, there - {MODEL}, there):
        revision = commit(repo, files(there - gone, layout) or {"none.yaml": b"# nothing\n"})
        assert await pushed(controller, repo, revision) == "refused"
        assert await pushed(controller, repo, revision, "one") in ("held", "accepted")


# --- ways past the hook -----------------------------------------------------------------------------


def plainly(repo: ClusterRepo, person: Person) -> None:
    """A push over a hook that git leaves out in silence."""
    (repo.path / "hooks" / "pre-receive").chmod(0o644)
    (repo.path / "hooks" / "post-receive").chmod(0o644)
    assert person.pushes("origin", "HEAD:main")[0] == 0


def with_other_hooks(repo: ClusterRepo, person: Person) -> None:
    """Somebody has set another folder for hooks."""
    run_git((f"--git-dir={repo.path}", "config", "core.hooksPath", "/nowhere"))
    assert person.pushes("origin", "HEAD:main")[0] == 0


def fetched(repo: ClusterRepo, person: Person) -> None:
    """From within the bare repository, which runs no hook."""
    run_git((f"--git-dir={repo.path}", "fetch", "--quiet", "--force", str(person.clone), "HEAD:main"))


def reset(repo: ClusterRepo, person: Person) -> None:
    """Back to a commit from before the deployment was there."""
    run_git((f"--git-dir={repo.path}", "update-ref", REF, f"{repo.head()}~1"))


def unrelated(repo: ClusterRepo, person: Person) -> None:
    """A branch without any commit of before, as of another repository."""
    person.git("checkout", "--quiet", "--orphan", "other")
    person.git("commit", "--quiet", "--message", "Begin again\n\nAllow-Removal: one")
    fetched(repo, person)


@pytest.mark.parametrize("comes", [plainly, with_other_hooks, fetched, reset, unrelated])
async def test_a_revision_that_came_past_the_hook_removes_nothing_that_serves(
    comes: Any, controller: Controller, repo: ClusterRepo, person: Person
) -> None:
    layout = random.Random(0)
    move(repo, commit(repo, files(frozenset(TEXTS) - {ONE}, layout)))
    move(repo, commit(repo, files(frozenset(TEXTS), layout)))
    before = (await controller.look()).revision
    controller.serving = {ONE}
    person.git("pull", "--quiet", "origin", "main")
    for path in person.clone.glob("*.yaml"):
        path.unlink()
    for name, content in files(frozenset(TEXTS) - {ONE}, layout).items():
        (person.clone / name).write_bytes(content)
    person.git("add", "--all")
    person.git("commit", "--quiet", "--message", "Tidy up")
    comes(repo, person)
    desired = await controller.look()
    assert desired.revision == before
    assert ONE in desired.objects()
    assert desired.hold is not None
    assert desired.hold.unsaid == (ONE,)
    assert (await controller.restart()).hold == desired.hold, "a restart has forgotten nothing of that"
    controller.desired_state.approve(desired.hold.revision[:10], "ada")
    assert ONE not in (await controller.look()).objects()


async def test_a_pusher_who_allows_it_once_is_believed_by_the_loop(
    controller: Controller, repo: ClusterRepo
) -> None:
    layout = random.Random(0)
    move(repo, commit(repo, files(frozenset(TEXTS), layout)))
    await controller.look()
    controller.serving = {ONE}
    revision = commit(repo, files(frozenset(TEXTS) - {ONE}, layout))
    assert await pushed(controller, repo, revision) == "refused"
    assert await pushed(controller, repo, revision, "") == "accepted"
    move(repo, revision)
    await controller.restart()
    assert ONE not in (await controller.look()).objects()


async def test_a_file_that_is_gone_from_a_watched_folder_is_asked_about_where_it_serves(
    tmp_path: Path, home: Path
) -> None:
    for key, text in TEXTS.items():
        (tmp_path / f"{key.kind}-{key.name}.yaml").write_text(text)
    controller = Controller(DirectorySource(tmp_path), home / "folder.db")
    before = (await controller.look()).revision
    controller.serving = {ONE}
    (tmp_path / "ModelDeployment-two.yaml").unlink()
    after = (await controller.look()).revision
    assert after != before, "it does not serve"
    (tmp_path / "ModelDeployment-one.yaml").unlink()
    desired = await controller.look()
    assert (desired.revision, ONE in desired.objects()) == (after, True)
    assert desired.hold is not None
    controller.desired_state.approve(desired.hold.revision, "ada")
    assert ONE not in (await controller.look()).objects()
    controller.store.close()
