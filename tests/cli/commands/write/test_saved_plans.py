"""`plan --save` and `apply --plan`: what was shown is what is done, or it is said why not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live import API, Live, live

pytestmark = pytest.mark.second_tier
BATCH = "kind: ModelDeployment\nmetadata: {{name: {name}}}\nspec: {{model: tiny, serving: {{maxBatch: {batch}}}}}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with pytest.MonkeyPatch.context() as patch, live() as made:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield made


def batch(name: str, size: int) -> str:
    return API + BATCH.format(name=name, batch=size)


def saved(cluster: Live, text: str) -> str:
    """Save a plan; its id."""
    ran = cluster.run("plan", "-f", "-", "--save", stdin=text)
    assert ran.returncode == 0, ran.stderr
    last = ran.stdout.splitlines()[-1]
    assert last.startswith("saved as ")
    return last.partition("saved as ")[2].partition(";")[0]


def in_git(cluster: Live, name: str) -> str:
    return cluster.run("get", "deployment", name, "-o", "jsonpath={.spec.serving.maxBatch}").stdout


def log(cluster: Live) -> list[str]:
    command = ("git", f"--git-dir={cluster.home / 'cluster.git'}", "log", "--format=%s", "main")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_saved_plan_is_made_once_and_as_it_was_shown(cluster: Live) -> None:
    before = log(cluster)
    id = saved(cluster, batch("tiny", 3))
    assert log(cluster) == before
    ran = cluster.run("apply", "--plan", id[:6])
    assert (ran.returncode, ran.stdout) == (0, "modeldeployment.reconciler/tiny configured\n"), ran.stderr
    assert log(cluster) == ["Apply modeldeployment/tiny", *before]
    assert in_git(cluster, "tiny") == "3"
    again = cluster.run("apply", "--plan", id)
    assert again.returncode == 1
    assert "reconciler plan -f DIR --save" in again.stderr


def test_the_same_change_of_the_same_revision_is_the_same_plan(cluster: Live) -> None:
    assert (
        saved(cluster, batch("tiny", 4))
        == saved(cluster, batch("tiny", 4))
        != saved(cluster, batch("tiny", 5))
    )


def test_a_plan_whose_files_have_changed_is_refused_and_names_them(cluster: Live) -> None:
    id = saved(cluster, batch("tiny", 6))
    cluster.apply(batch("tiny", 7))
    before = log(cluster)
    ran = cluster.run("apply", "--plan", id)
    assert ran.returncode == 1
    assert "tiny.yaml changed since plan" in ran.stderr
    assert log(cluster) == before


def test_a_plan_goes_on_top_of_commits_that_have_nothing_to_do_with_it(cluster: Live) -> None:
    id = saved(cluster, batch("tiny", 8))
    cluster.apply(batch("big", 9))
    assert cluster.run("apply", "--plan", id).returncode == 0
    assert (in_git(cluster, "tiny"), in_git(cluster, "big")) == ("8", "9")


def test_a_plan_that_would_do_something_else_now_is_refused(cluster: Live) -> None:
    """The model that a deployment was to serve is gone meanwhile."""
    other = "kind: Model\nmetadata: {name: other}\nspec: {source: {path: tiny}}\n"
    cluster.apply(API + other)
    id = saved(cluster, API + "kind: ModelDeployment\nmetadata: {name: third}\nspec: {model: other}\n")
    cluster.remove("other")
    ran = cluster.run("apply", "--plan", id)
    assert ran.returncode == 1
    assert "would no longer do what it has shown" in ran.stderr
    assert "new:       ! modeldeployment/third: ModelNotFound" in ran.stderr


def test_nothing_to_do_is_no_plan(cluster: Live) -> None:
    text = batch("tiny", 10)
    cluster.apply(text)
    ran = cluster.run("plan", "-f", "-", "--save", stdin=text)
    assert (ran.returncode, "no plan was saved" in ran.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("apply",), "or --plan ID"),
        (("apply", "--plan", "abcd", "-f", "x.yaml"), "or --plan ID"),
        (("plan", "--save"), "reconciler plan -f FILE --save"),
    ],
)
def test_what_is_missing_is_said_with_an_example(cluster: Live, words: tuple[str, ...], told: str) -> None:
    ran = cluster.run(*words)
    assert (ran.returncode, told in ran.stderr) == (2, True), ran.stderr


def test_a_plan_is_for_one_cluster(cluster: Live, tmp_path: Path) -> None:
    id = saved(cluster, batch("tiny", 11))
    elsewhere = Live(tmp_path)
    assert "is for " in elsewhere.run("apply", "--plan", id).stderr
