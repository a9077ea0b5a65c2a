"""Which commits changed an object, and how it gets back to what it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.errors import Invalid, Refused
from reconciler.source.git.copies import Copy
from reconciler.source.git.going_back import Undo, go_back, undo
from reconciler.source.git.history import changes
from reconciler.source.git.repository import OPERATIONS, ClusterRepo
from reconciler.source.yaml.documents import load
from tests.source.conftest import AUTHOR, Person

pytestmark = pytest.mark.processes

HEAD = "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: {}\nspec:\n"
KEY = ("Node", "a")


@pytest.fixture
def repo(home: Path) -> ClusterRepo:
    """One that takes every push: what is kept out is tried with the hooks, what became of it here."""
    return ClusterRepo.create(home / "cluster.git", ("true",))


def node(name: str, reserve: str = "1GiB", note: str = "") -> str:
    return HEAD.format(name) + f"  local: {{}}\n{note}  memory:\n    reserve: {reserve}   # kept\n"


def commit(repo: ClusterRepo, subject: str, **files: str) -> str:
    named = {f"{name}.yaml": text.encode() or None for name, text in files.items()}
    return repo.commit(repo.head(), named, subject, AUTHOR)


def files(repo: ClusterRepo) -> dict[str, bytes]:
    head = repo.head()
    return repo.read(head) if head else {}


def subjects(repo: ClusterRepo) -> list[str]:
    return [change.commit.subject for change in changes(repo, KEY)]


def undone(repo: ClusterRepo) -> tuple[Undo, dict[str, str]]:
    found = undo(repo, files(repo), KEY)
    return found, {name: text.decode() for name, text in found.edit.applied_to(files(repo)).items()}


def test_the_history_has_the_commits_that_changed_the_object_alone(repo: ClusterRepo) -> None:
    commit(repo, "first", n=node("a") + "---\n" + node("b"))
    commit(repo, "other", n=node("a") + "---\n" + node("b", "2GiB"))
    commit(repo, "comment", n=node("a", note="  # why\n") + "---\n" + node("b", "2GiB"))
    commit(repo, "moved", n=node("b", "2GiB"), m=node("a", note="  # why\n"))
    commit(repo, "more", m=node("a", "3GiB"))
    commit(repo, "gone", m="")
    assert subjects(repo) == ["gone", "more", "first"]
    gone, more, first = changes(repo, KEY)
    assert (gone.after, more.file, first.before, first.others) == (None, "m.yaml", None, (("Node", "b"),))
    assert more.before == node("a", note="  # why\n")
    assert (more.commit.author, len(more.commit.revision)) == ("Ada", 40)


def test_a_merge_counts_as_what_it_brought(repo: ClusterRepo, person: Person) -> None:
    person.commits(node("a"), "a.yaml")
    person.git("checkout", "-q", "-b", "side")
    person.commits(node("a", "2GiB"), "a.yaml")
    person.git("checkout", "-q", "main")
    person.commits(node("b"), "b.yaml")
    person.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    assert person.pushes()[0] == 0
    assert subjects(repo) == ["Merge side", "change a.yaml"]
    found, after = undone(repo)
    assert after == {"a.yaml": node("a"), "b.yaml": node("b")}
    assert found.message.startswith('Revert "Merge side"\n\nThis reverts commit ')


def test_files_of_the_past_that_cannot_be_read_are_passed_over(repo: ClusterRepo) -> None:
    commit(repo, "good", n=node("a"))
    commit(repo, "broken", n=node("a") + "---\n[a")
    commit(repo, "odd", n="metadata: {name: a}\n---\nkind: Node\nmetadata: [a]\n")
    commit(repo, "good again", n=node("a"))
    assert subjects(repo) == ["good again", "odd", "good"]


def test_undoing_reverts_the_commit_and_keeps_what_came_later(repo: ClusterRepo) -> None:
    commit(repo, "first", n="# nodes\n" + node("a") + "---\n" + node("b"))
    wrong = commit(repo, "Wrong", n="# nodes\n" + node("a", "9GiB") + "---\n" + node("b"))
    commit(repo, "other", n="# our nodes\n" + node("a", "9GiB") + "---\n" + node("b", "2GiB"))
    found, after = undone(repo)
    assert found.message == f'Revert "Wrong"\n\nThis reverts commit {wrong}.\n'
    assert (found.note, after) == ("", {"n.yaml": "# our nodes\n" + node("a") + "---\n" + node("b", "2GiB")})


def test_undoing_twice_is_doing_it_again(repo: ClusterRepo) -> None:
    commit(repo, "first", n=node("a"))
    commit(repo, "second", n=node("a", "2GiB"))
    for expected in (node("a"), node("a", "2GiB"), node("a")):
        found, after = undone(repo)
        assert after == {"n.yaml": expected}
        repo.commit(repo.head(), found.edit.changes, found.message, AUTHOR)


def test_where_the_commit_changed_others_too_they_stay(repo: ClusterRepo) -> None:
    commit(repo, "first", n=node("a") + "---\n" + node("b"))
    both = commit(repo, "both", n=node("a", "2GiB") + "---\n" + node("b", "2GiB"))
    found, after = undone(repo)
    assert after == {"n.yaml": node("a") + "---\n" + node("b", "2GiB")}
    assert found.note == f"{both[:10]} also changed node/b, which stays; only node/a goes back"
    assert found.message == f"Roll back node/a to before {both[:10]}"


def test_where_a_revert_conflicts_the_object_alone_goes_back(repo: ClusterRepo) -> None:
    commit(repo, "first", n=node("a"))
    wrong = commit(repo, "wrong", n=node("a", "9GiB"))
    commit(repo, "comment", n=node("a", "9GiB").replace("# kept", "# for the system"))
    found, after = undone(repo)
    assert after == {"n.yaml": node("a")}
    assert found.note == (
        f"later commits changed the same lines as {wrong[:10]}, so only the text of node/a goes back"
    )


def test_a_deleted_object_comes_back_where_it_was(repo: ClusterRepo) -> None:
    commit(repo, "first", n=node("b") + "---\n" + node("a"), other=node("c"))
    commit(repo, "delete", n=node("b"))
    assert undone(repo)[1]["n.yaml"] == node("b") + "---\n" + node("a")


def test_there_may_be_nothing_to_go_back_to(repo: ClusterRepo) -> None:
    with pytest.raises(Refused, match='no commit has "node/a"'):
        undo(repo, {}, KEY)
    first = commit(repo, "first", n=node("a"))
    with pytest.raises(Refused, match=f"node/a was created by {first[:10]}, so there is no earlier version"):
        undo(repo, files(repo), KEY)


def test_an_object_goes_back_to_any_revision_that_had_it(repo: ClusterRepo) -> None:
    first = commit(repo, "first", n=node("a", note="  # why\n"))
    second = commit(repo, "second", n=node("a", "2GiB"), m=node("b"))
    third = commit(repo, "third", n=node("a", "3GiB"))
    found = go_back(repo, files(repo), KEY, first)
    assert found.edit.applied_to(files(repo))["n.yaml"] == node("a", note="  # why\n").encode()
    assert found.message == f"Roll back node/a to {first[:10]}"
    assert go_back(repo, files(repo), KEY, third).edit.changes == {}
    with pytest.raises(Refused, match='there is no node "b" in revision'):
        go_back(repo, files(repo), ("Node", "b"), first)
    assert {d.key[1] for d in load(go_back(repo, {}, ("Node", "b"), second).edit.applied_to({}))} == {"b"}


OTHERS = 5000


def commits_of_others(repo: ClusterRepo, count: int, file: str) -> None:
    """Many commits on top of `main`, each of which changes this file alone."""
    lines = []
    for number in range(count):
        text = node("c", f"{number + 1}MiB")
        if file == "n.yaml":
            text = node("a", "2GiB") + "---\n" + node("b", f"{number + 1}MiB")
        lines += [
            f"commit refs/heads/main\ncommitter bea <b@example.org> {1_700_000_000 + number} +0000\ndata 5\nother\n",
            f"from {repo.head()}\n" if number == 0 else "",
            f"M 644 inline {file}\ndata {len(text)}\n{text}\n",
        ]
    git = ["git", f"--git-dir={repo.path}", "fast-import", "--quiet", "--force"]
    subprocess.run(git, input="".join(lines).encode(), check=True, capture_output=True, timeout=60)


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("folder", "file"),
    [
        pytest.param("clusters/studio", "apps/web/values.yaml", id="beside-our-folder"),
        pytest.param("", "apps/web/values.yaml", id="in-another-file"),
        pytest.param("", "n.yaml", id="in-the-same-file"),
    ],
)
def test_an_object_is_found_below_thousands_of_commits_by_others(
    repo: ClusterRepo, folder: str, file: str
) -> None:
    repo.configure("", folder)
    first = commit(repo, "first", n=node("a") + "---\n" + node("b"))
    second = commit(repo, "second", n=node("a", "2GiB") + "---\n" + node("b"))
    commits_of_others(repo, OTHERS, file)
    assert [change.commit.revision for change in changes(repo, KEY)] == [second, first]
    after = undo(repo, files(repo), KEY).edit.applied_to(files(repo))
    changed = after[f"{folder}/n.yaml".lstrip("/")].decode()
    assert changed.startswith(node("a") + "---\n")
    assert ("GiB" in changed.partition("---")[2]) == (file != "n.yaml"), "the other object stays as it is"


@pytest.mark.second_tier
def test_an_object_that_was_removed_is_found_below_thousands_of_commits_by_others(repo: ClusterRepo) -> None:
    commit(repo, "first", n=node("a"), m=node("b"))
    gone = commit(repo, "gone", n="")
    commits_of_others(repo, OTHERS, "apps/values.yaml")
    newest = next(changes(repo, KEY))
    assert (newest.commit.revision, newest.after) == (gone, None)


def test_a_copy_on_another_machine_reads_the_same_folder(repo: ClusterRepo, tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy.git", url=str(repo.path))
    for mirror, folder in (("", ""), ("", "clusters/studio"), ("https://example.org/a.git", "b c"), ("", "")):
        repo.configure(mirror, folder)
        copy.fetch()
        assert (copy.mirrored(), copy.folder(), copy.folder(OPERATIONS)) == (mirror, folder, "")


def test_revisions_may_be_abbreviated(repo: ClusterRepo) -> None:
    first = commit(repo, "first", n=node("a"))
    assert repo.resolve(first[:7]) == first
    for wrong in ("abc", "main", "--all", "0" * 40, "HEAD~1"):
        with pytest.raises(Invalid, match="is not a revision of main"):
            repo.resolve(wrong)


SERVED = """apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata: {name: tiny}
spec: {model: %s, replicas: %d}
"""
WEIGHTS = """apiVersion: reconciler/v1alpha1
kind: Model
metadata: {name: %s}
spec: {source: {path: %s}}
"""
TINY = ("ModelDeployment", "tiny")


def test_undoing_a_deployment_names_the_later_change_of_its_model_and_changes_nothing(
    repo: ClusterRepo,
) -> None:
    commit(repo, "first", d=SERVED % ("m", 1), m=WEIGHTS % ("m", "good"), n=WEIGHTS % ("n", "other"))
    before = repo.head() or ""
    good = commit(repo, "More replicas", d=SERVED % ("m", 2))
    commit(repo, "another model", n=WEIGHTS % ("n", "changed"))
    found = undo(repo, files(repo), TINY)
    assert found.undoes is not None
    assert found.undoes.revision == good, "a change of another model is none of its"
    bad = commit(repo, "Newer weights", m=WEIGHTS % ("m", "bad"))
    with pytest.raises(Refused) as refused:
        undo(repo, files(repo), TINY)
    assert f'its model was changed later, by {bad[:10]} "Newer weights"' in str(refused.value)
    assert "to undo that: reconciler rollout undo model/m;" in str(refused.value)
    assert str(refused.value).endswith(
        f"reconciler rollout undo modeldeployment/tiny --to-revision={before[:10]}"
    )
    found = undo(repo, files(repo), ("Model", "m"))
    assert found.undoes is not None
    assert found.undoes.revision == bad
    repo.commit(repo.head(), found.edit.changes, found.message, AUTHOR)
    assert go_back(repo, files(repo), TINY, before).edit.changes
    both = commit(repo, "both", d=SERVED % ("m", 3), m=WEIGHTS % ("m", "newer"))
    found = undo(repo, files(repo), TINY)
    assert found.undoes is not None
    assert found.undoes.revision == both
