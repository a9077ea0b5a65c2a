"""A Job is code: which way it may come into force, and which keeps it out. On real git."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from reconciler.controller.admin.preview import preview
from reconciler.controller.admin.pushes import Pushes
from reconciler.source.editing import apply_documents
from reconciler.source.git.process import run_git
from reconciler.source.git.pushes import Push
from reconciler.source.git.repository import NO_COMMIT, OPERATIONS, REF, ClusterRepo
from reconciler.source.operating.writing import write_manifests
from reconciler.source.operations import file_of, text_of
from reconciler.source.pushed import read_fetched, read_push
from reconciler.source.yaml.beside import packed
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.pieces import Beside
from reconciler.state.identity import JobName
from reconciler.wire.admin import JudgeOperations, JudgePush, Preview
from tests.properties.test_operations import operation
from tests.source.conftest import AUTHOR
from tests.worlds import job

from .test_desired_state import Controller, node
from .test_removals import Loop, move, parts

pytestmark = pytest.mark.processes

ALLOWING = node("a") + "  jobs: {allow: {paths: [jobs/*]}}\n"
MANIFEST, SCRIPT = "jobs/train.yaml", "jobs/train.py"
TEXT = """\
apiVersion: reconciler/v1alpha1
kind: Job
metadata: {name: train}
spec:
  program: {script: {command: [python, train.py]}}
  files: [jobs/train.py]
"""
FILES = {"a.yaml": ALLOWING.encode(), MANIFEST: TEXT.encode(), SCRIPT: Beside(b"print(1)\n")}


def commit(repo: ClusterRepo, contents: Mapping[str, bytes], message: str = "change") -> str:
    """A commit on top of main, which nobody has pushed yet."""
    head = repo.head()
    environment = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    arguments = ("commit-tree", *(("-p", head) if head else ()), repo._write_tree(head, contents))
    made = run_git((f"--git-dir={repo.path}", *arguments), stdin=message.encode(), environment=environment)
    return made.decode().strip()


async def pushed(
    controller: Controller, repo: ClusterRepo, revision: str, allow_job: str | None = None
) -> str:
    """What a push is answered: ``accepted``, or why not."""
    asked = JudgePush(str(repo.path.resolve()), repo.head() or NO_COMMIT, revision, REF, allow_job=allow_job)
    body = await Pushes(parts(controller), cast(Any, Loop())).judge(asked)
    return "accepted" if body["accept"] else " ".join(" ".join(body["lines"]).split())


@pytest.fixture
async def begun(controller: Controller, repo: ClusterRepo) -> str:
    """A cluster in force whose node allows jobs."""
    move(repo, commit(repo, {"a.yaml": ALLOWING.encode()}))
    return (await controller.look()).revision


async def test_a_push_of_a_job_has_to_name_it(controller: Controller, repo: ClusterRepo, begun: str) -> None:
    revision = commit(repo, FILES)
    assert await pushed(controller, repo, revision) == (
        "reconciler: this push would run job/train (python train.py) on a. A job is code: to run it, say so in the"
        " commit: git commit --amend --no-edit --trailer 'Allow-Job: train' or once: git push -o allow-job reconciler:"
        " main stays as it was"
    )
    assert await pushed(controller, repo, revision, allow_job="other") != "accepted"
    named = commit(repo, FILES, "a job\n\nAllow-Job: train\n")
    assert await pushed(controller, repo, named) == "accepted"
    move(repo, named)
    desired = await controller.look()
    assert (desired.revision, desired.hold, [*desired.jobs]) == (named, None, ["train"])
    assert desired.jobs[JobName("train")].spec.manifest_path == MANIFEST


@pytest.mark.parametrize("option", ["", "train"])
async def test_a_push_option_permits_it_once(
    controller: Controller, repo: ClusterRepo, begun: str, option: str
) -> None:
    revision = commit(repo, FILES)
    assert await pushed(controller, repo, revision, allow_job=option) == "accepted"
    move(repo, revision)
    assert (await controller.look()).revision == revision
    changed = commit(repo, {SCRIPT: Beside(b"print(2)\n")})
    assert (await pushed(controller, repo, changed)).startswith("reconciler: this push would run job/train")


async def test_what_came_past_the_hook_is_held_until_it_is_approved(
    controller: Controller, repo: ClusterRepo, begun: str
) -> None:
    revision = commit(repo, FILES)
    move(repo, revision)
    desired = await controller.look()
    assert (desired.revision, [*desired.jobs]) == (begun, [])
    assert desired.hold is not None
    assert [each.name for each in desired.hold.runs] == ["train"]
    assert (await controller.restart()).hold == desired.hold
    controller.desired_state.approve(revision[:10], "ada")
    assert [*(await controller.look()).jobs] == ["train"]
    quiet = commit(repo, {MANIFEST: f"{TEXT}  priority: 5\n".encode()})
    move(repo, quiet)
    assert (await controller.look()).revision == quiet


async def test_a_changed_file_alone_is_held_and_a_trailer_of_a_later_commit_permits_it(
    controller: Controller, repo: ClusterRepo, begun: str
) -> None:
    move(repo, commit(repo, FILES, "a job\n\nAllow-Job: job/train\n"))
    first = await controller.look()
    move(repo, commit(repo, {SCRIPT: Beside(b"print(2)\n")}))
    assert (await controller.look()).hold is not None
    move(repo, commit(repo, {"b.yaml": node("b").encode()}, "also\n\nAllow-Job: train, other\n"))
    desired = await controller.look()
    assert desired.hold is None
    assert desired.jobs != first.jobs


async def test_a_node_that_newly_allows_an_old_job_is_held(controller: Controller, repo: ClusterRepo) -> None:
    move(repo, commit(repo, {**FILES, "a.yaml": node("a").encode()}))
    before = await controller.look()
    assert [*before.jobs] == ["train"], "it is in force, and runs nowhere"
    move(repo, commit(repo, {"a.yaml": ALLOWING.encode()}))
    desired = await controller.look()
    assert (desired.revision, desired.hold is None) == (before.revision, False)


async def test_after_an_empty_repository_a_job_has_to_be_named_too(
    controller: Controller, repo: ClusterRepo
) -> None:
    assert (await controller.look()).revision == "empty"
    assert (await pushed(controller, repo, commit(repo, FILES))).startswith("reconciler: this push would run")
    named = commit(repo, FILES, "all\n\nAllow-Job: train\n")
    assert await pushed(controller, repo, named) == "accepted"
    move(repo, named)
    assert [*(await controller.look()).jobs] == ["train"]


async def test_a_star_in_a_trailer_names_nothing(
    controller: Controller, repo: ClusterRepo, begun: str
) -> None:
    assert await pushed(controller, repo, commit(repo, FILES, "all\n\nAllow-Job: *\n")) != "accepted"


async def test_a_fetched_commit_is_judged_alike(
    controller: Controller, repo: ClusterRepo, begun: str
) -> None:
    for message, accepted in (("a job", False), ("a job\n\nAllow-Job: train\n", True)):
        fetched = read_fetched(repo, begun, commit(repo, FILES, message))
        body = await Pushes(parts(controller), cast(Any, Loop())).foreseen(fetched)
        assert body["accept"] == accepted


async def test_who_applies_a_job_has_named_it(controller: Controller, repo: ClusterRepo, begun: str) -> None:
    incoming = load({MANIFEST: TEXT.encode(), SCRIPT: Beside(b"print(1)\n")}, part=True)
    write_manifests(
        ClusterRepo(repo.path, check=lambda *_: ""),
        AUTHOR,
        lambda files: apply_documents(files, incoming),
        lambda _: "Apply job/train",
        {},
    )
    assert "Allow-Job: train" in repo.git("log", "-1", "--format=%B", repo.head() or "")
    assert [*(await controller.look()).jobs] == ["train"]


async def test_a_preview_shows_what_would_run(controller: Controller, repo: ClusterRepo, begun: str) -> None:
    texts, others = packed(repo.read(commit(repo, FILES)))
    body = await preview(parts(controller), cast(Any, Loop()), Preview(texts, job_files=others))
    assert (body["held"], body["runs"]) == (
        True,
        [
            {
                "object": "job/train",
                "command": ["python", "train.py"],
                "nodes": ["a"],
                "text": "job/train (python train.py) on a",
            }
        ],
    )
    named = Preview(texts, allowed=("run/train",), job_files=others)
    assert not (await preview(parts(controller), cast(Any, Loop()), named))["held"]


async def test_operations_keep_no_job_that_was_never_in_force(
    controller: Controller, repo: ClusterRepo, begun: str
) -> None:
    move(repo, commit(repo, FILES, "a job\n\nAllow-Job: train\n"))
    there = (await controller.look()).jobs[JobName("train")]

    async def accepted(manifest: Any) -> bool:
        body = manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)
        suspends = operation("suspend", "Job", "train", manifest=body)
        files = {file_of(suspends.metadata.name): text_of(suspends)}
        made = ClusterRepo(repo.path, check=lambda *_: "").commit(
            repo.head(OPERATIONS), files, "x", AUTHOR, OPERATIONS
        )
        asked = JudgeOperations(str(repo.path.resolve()), NO_COMMIT, made)
        return (await Pushes(parts(controller), cast(Any, Loop())).judge_operations(asked))["accept"]

    assert await accepted(there)
    assert not await accepted(job("train", program={"script": {"command": ["sh", "-c", "anything"]}}))


def test_both_trailers_are_read_of_a_push(repo: ClusterRepo) -> None:
    message = "change\n\nAllow-Removal: model/tiny\nallow-job: a, job/b\n"
    revision = commit(repo, {"a.yaml": ALLOWING.encode()}, message)
    found = read_push(repo, Push(NO_COMMIT, revision, REF))
    assert found.allowed == {"model/tiny", "run/a", "run/b"}
