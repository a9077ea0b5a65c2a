"""Job, and the permission of a Node to run it: what is refused, with what to write instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.errors import InvalidManifests
from reconciler.resources import Job, Node
from reconciler.source.yaml.documents import load
from tests.worlds import job, node

PROGRAM = "program: {script: {command: [a]}}"


def refused(kind: str, spec: str) -> list[str]:
    """What is said of a spec, without the places in the file."""
    text = f"apiVersion: reconciler/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{{spec}}}\n"
    with pytest.raises(InvalidManifests) as found:
        load({"a.yaml": text.encode()}, part=True)
    return [f"{each.path}: {each.text}" for each in found.value.problems]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "spec.program: required field is missing"),
        ("program: {}", "spec.program: use either script or mpi"),
        (
            "program: {script: {command: [a]}, mpi: {command: [b]}}",
            "spec.program.mpi: use either script or mpi",
        ),
        (
            "program: {script: {command: []}}",
            "spec.program.script.command: expected at least 1 item, got 0",
        ),
        (
            f"{PROGRAM}, timeZone: Europe/Berlin",
            "spec.timeZone: this is for a job with a schedule: add schedule, or remove this",
        ),
        (
            f"{PROGRAM}, concurrencyPolicy: Replace",
            "spec.concurrencyPolicy: this is for a job with a schedule: add schedule, or remove this",
        ),
        (
            f"{PROGRAM}, startingDeadline: 1h",
            "spec.startingDeadline: this is for a job with a schedule: add schedule, or remove this",
        ),
        (f"{PROGRAM}, transport: [ring, ring]", "spec.transport: ring is listed twice"),
        (
            f"{PROGRAM}, env: {{A: b}}, secrets: {{A: {{env: X}}}}",
            "spec.secrets: A is in env too: remove one of them",
        ),
        (f"{PROGRAM}, secrets: {{A: {{}}}}", "spec.secrets.A: use either env or file"),
        (
            f"{PROGRAM}, secrets: {{A: {{env: X, file: /x}}}}",
            "spec.secrets.A: use either env or file",
        ),
        (
            f"{PROGRAM}, env: {{MLX_RANK: '1'}}",
            "spec.env: MLX_RANK: names that begin with RECONCILER_, MLX_, LD_, DYLD_ are set by the reconciler",
        ),
        (
            f"{PROGRAM}, artifacts: [../out]",
            'spec.artifacts[0]: expected a relative path without "." and "..", such as "jobs/hpl/HPL.dat", got "../out" (a'
            " string)",
        ),
        (f"{PROGRAM}, artifacts: [out, out]", "spec.artifacts: out is listed twice"),
        (
            f"{PROGRAM}, files: [a.py, jobs/a.py]",
            "spec.files: two files have the name a.py in the working directory",
        ),
        (
            f"{PROGRAM}, files: [3]",
            'spec.files[0]: expected a path such as "jobs/train.py", or a mapping with path, got 3 (a number)',
        ),
        (f"{PROGRAM}, nodes: 65", "spec.nodes: expected at most 64, got 65"),
        (f"{PROGRAM}, failOnExitCodes: [0]", "spec.failOnExitCodes[0]: expected at least 1, got 0"),
        (
            f"{PROGRAM}, activeDeadlineSeconds: 5",
            'spec.activeDeadlineSeconds: unknown field: use "activeDeadline", such as "2h"',
        ),
        (
            f"{PROGRAM}, restartPolicy: Never",
            'spec.restartPolicy: unknown field: use "backoffLimit", and "failOnExitCodes"',
        ),
        (
            f"{PROGRAM}, schedule: 0 0 31 2 *",
            'spec.schedule: expected five fields of cron such as "0 8 * * 1-5": wrong day of the month, got "0 0 31 2 *" (a'
            " string)",
        ),
        (
            f"{PROGRAM}, schedule: 0 8 * * *, timeZone: Europe/Berln",
            'spec.timeZone: there is no time zone "Europe/Berln"; did you mean "Europe/Berlin"?',
        ),
        (
            f"{PROGRAM}, image: x",
            "spec.image: unknown field: a job runs with the programs of the node, and not in a container",
        ),
    ],
)
def test_a_wrong_job_is_explained(spec: str, said: str) -> None:
    assert said in refused("Job", spec)


def test_fields_that_no_manifest_may_have_are_not_offered() -> None:
    (of_job,) = refused("Job", f"{PROGRAM}, cpu: 4")
    assert "restartedAt" in of_job
    assert "manifestPath" not in of_job
    (of_file,) = refused("Job", f"{PROGRAM}, files: [{{path: a.py, owner: root}}]")
    assert of_file.endswith("the fields here are path, executable")


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (
            "allow",
            'spec.jobs: expected "deny", or a mapping such as allow: {paths: [jobs/*], user: NAME}, got "allow" (a string)',
        ),
        (
            "[jobs/*]",
            'spec.jobs: expected "deny", or a mapping such as allow: {paths: [jobs/*], user: NAME}, got a list',
        ),
        ("{}", "spec.jobs.allow: required field is missing"),
        ("{allow: {}}", "spec.jobs.allow.paths: required field is missing"),
        ("{allow: {path: [x]}}", 'spec.jobs.allow.path: unknown field, did you mean "paths"?'),
        (
            "{paths: [x]}",
            'spec.jobs.paths: unknown field: put it under "allow": {paths: [jobs/*], user: NAME}',
        ),
        ("{allow: {paths: []}}", "spec.jobs.allow.paths: expected at least 1 item, got 0"),
        (
            "{allow: {paths: [/jobs/*]}}",
            'spec.jobs.allow.paths[0]: expected a path from the root of the repository, such as "jobs/*", got "/jobs/*" (a'
            " string)",
        ),
        (
            "{allow: {paths: [jobs/*], user: a b}}",
            'spec.jobs.allow.user: expected the name of a user, got "a b"',
        ),
    ],
)
def test_a_wrong_permission_is_explained_once(jobs: str, said: str) -> None:
    found = refused("Node", f"local: {{}}, jobs: {jobs}")
    assert said in found
    assert not any('expected "deny", got' in each for each in found), (
        "only the form that was meant is explained"
    )


@pytest.mark.parametrize(
    ("patterns", "path", "named"),
    [
        (["jobs/*"], "jobs/train.yaml", True),
        (["jobs/*"], "jobs/later/train.yaml", True),
        (["jobs/*"], "other/jobs/train.yaml", False),
        (["jobs/?.yaml"], "jobs/a.yaml", True),
        (["jobs/?.yaml"], "jobs/ab.yaml", False),
        (["a", "jobs/train.yaml"], "jobs/train.yaml", True),
        (["*"], None, False),
    ],
)
def test_a_permission_is_for_paths_of_the_repository(
    patterns: list[str], path: str | None, named: bool
) -> None:
    allowed = node("a", jobs={"allow": {"paths": patterns}}).spec.jobs_allowed
    assert allowed is not None
    assert allowed.names(path) == named


def test_no_node_allows_anything_by_itself() -> None:
    assert node("a").spec.jobs_allowed is None
    assert node("a", jobs="deny").spec.jobs_allowed is None


@pytest.mark.parametrize(
    "made",
    [
        job(files=[{"path": "a.py", "data": "Zm9v", "executable": True}], secrets={"A": {"env": "B"}}),
        job(schedule="0 8 * * *", timeZone="Europe/Berlin", startingDeadline="1h", artifacts=["out/*"]),
        node("a", jobs={"allow": {"paths": ["jobs/*"], "user": "jobs"}}),
    ],
    ids=str,
)
def test_what_is_kept_is_read_again_as_the_same(made: Job | Node) -> None:
    text = json.dumps(made.model_dump(mode="json", by_alias=True))
    assert type(made).model_validate_json(text) == made


def test_what_is_printed_has_nothing_that_the_reconciler_sets() -> None:
    made = job(files=[{"path": "a.py", "data": "Zm9v"}])
    for body in (made.body(), made.body(defaults=False)):
        spec: dict[str, Any] = body["spec"]
        assert "manifestPath" not in spec
        assert [{**file} for file in spec["files"]] in (
            [{"path": "a.py", "executable": False}],
            [{"path": "a.py"}],
        )
