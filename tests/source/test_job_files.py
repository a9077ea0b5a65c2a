"""The files that Jobs name: from the commit or the folder with the manifest, and what is said of those that cannot be had."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from reconciler.errors import InvalidManifests
from reconciler.resources import Job
from reconciler.resources.job_files import FILES_BYTES_MAX
from reconciler.source.editing import apply_documents, diff, set_fields
from reconciler.source.files import read_directory, read_paths
from reconciler.source.git.pushes import Push
from reconciler.source.git.repository import NO_COMMIT, REF, ClusterRepo
from reconciler.source.operating.writing import in_force
from reconciler.source.pushed import read_fetched, read_push
from reconciler.source.sources import DirectorySource, GitSource
from reconciler.source.yaml.beside import packed, unpacked
from reconciler.source.yaml.documents import Document, load
from reconciler.source.yaml.pieces import Beside
from reconciler.state.job_fingerprint import fingerprint
from tests.source.conftest import AUTHOR, NODE, Person

SCRIPT = b"print('\xff\x00 any bytes')\n"
MANIFEST = "jobs/train.yaml"


def text(*files: str, name: str = "train", **spec: str) -> str:
    fields = "".join(f"  {field}: {value}\n" for field, value in spec.items())
    listed = "".join(f"    - {file}\n" for file in files)
    return (
        f"apiVersion: reconciler/v1alpha1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n"
        f"  program: {{script: {{command: [python, train.py]}}}}\n{fields}"
        + (f"  files:\n{listed}" if files else "")
    )


def job(documents: tuple[Document, ...], name: str = "train") -> Job:
    (found,) = (each.manifest for each in documents if each.key == ("Job", name))
    assert isinstance(found, Job)
    return found


def contents(found: Job) -> dict[str, bytes]:
    return {each.path: base64.b64decode(each.data or "") for each in found.spec.files}


def commit(repo: ClusterRepo, files: dict[str, bytes | None], base: str | None = None) -> str:
    return repo.commit(base, files, "change", AUTHOR)


def committed(repo: ClusterRepo) -> str:
    files = {MANIFEST: text("jobs/train.py").encode(), "jobs/train.py": Beside(SCRIPT)}
    return commit(repo, {**files})


async def test_a_job_has_the_files_of_its_commit_and_its_own_path(repo: ClusterRepo) -> None:
    first = committed(repo)
    source = GitSource(repo)
    found = job((await source.read()).documents)
    assert (contents(found), found.spec.manifest_path) == ({"jobs/train.py": SCRIPT}, MANIFEST)
    second = commit(repo, {"jobs/train.py": Beside(b"print(2)\n")}, first)
    newer = job((await source.read()).documents)
    assert contents(newer) == {"jobs/train.py": b"print(2)\n"}
    assert fingerprint(newer) != fingerprint(found), "a changed file is a changed job"
    assert second != first
    at_first = await source.at(first)
    assert at_first is not None
    assert job(at_first.documents) == found
    assert in_force(repo)["Job", "train"] == newer


async def test_a_folder_is_the_same_as_a_commit(repo: ClusterRepo, home: Path) -> None:
    committed(repo)
    folder = home / "manifests"
    (folder / "jobs").mkdir(parents=True)
    (folder / MANIFEST).write_text(text("jobs/train.py"))
    (folder / "jobs" / "train.py").write_bytes(SCRIPT)
    source = DirectorySource(folder)
    read = await source.read()
    assert job(read.documents) == job((await GitSource(repo).read()).documents)
    (folder / "jobs" / "train.py").write_bytes(b"print(2)\n")
    assert (await source.read()).id != read.id


def pushed_aside(person: Person, files: dict[str, bytes]) -> str:
    """Push files to a branch that nobody judges, and return the commit."""
    for name, content in files.items():
        (person.clone / name).parent.mkdir(parents=True, exist_ok=True)
        (person.clone / name).write_bytes(content)
    person.git("add", "--all")
    person.git("commit", "--quiet", "--message", "a job")
    person.git("push", "--quiet", "origin", "HEAD:refs/heads/other")
    return person.git("rev-parse", "HEAD")[1].strip()


def test_a_push_and_a_fetched_commit_have_them_too(repo: ClusterRepo, person: Person) -> None:
    new = pushed_aside(person, {"jobs/train.py": SCRIPT, MANIFEST: text("jobs/train.py").encode()})
    pushed = job(read_push(repo, Push(NO_COMMIT, new, REF)).documents)
    assert contents(pushed)["jobs/train.py"]
    assert job(read_fetched(repo, None, new).documents) == pushed


def test_with_a_folder_of_manifests_paths_begin_at_the_root(repo: ClusterRepo) -> None:
    files = {
        "clusters/studio/job.yaml": text("shared/train.py").encode(),
        "shared/train.py": Beside(SCRIPT),
    }
    revision = commit(repo, {**files})
    found = job(load(repo.read(revision, folder="clusters/studio")))
    assert (contents(found), found.spec.manifest_path) == (
        {"shared/train.py": SCRIPT},
        "clusters/studio/job.yaml",
    )


def test_json_of_the_program_and_hidden_yaml_can_be_files(repo: ClusterRepo) -> None:
    files = {
        MANIFEST: text("jobs/config.json", "jobs/.hpl/hosts.yaml").encode(),
        "jobs/config.json": Beside(b'{"lr": 1}'),
        "jobs/.hpl/hosts.yaml": Beside(b"not: a manifest\n"),
    }
    found = job(load(repo.read(commit(repo, {**files}))))
    assert contents(found) == {"jobs/config.json": b'{"lr": 1}', "jobs/.hpl/hosts.yaml": b"not: a manifest\n"}


def problems(home: Path, repo: ClusterRepo, manifest: str, **others: bytes) -> list[str]:
    """What a folder and a commit say, which is the same."""
    folder = home / "wrong"
    files = {MANIFEST: manifest.encode(), **{f"jobs/{name}": content for name, content in others.items()}}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    with pytest.raises(InvalidManifests) as of_folder:
        load(read_directory(folder))
    open_repo = ClusterRepo(repo.path, check=lambda *_: "")
    beside = {name: content if name == MANIFEST else Beside(content) for name, content in files.items()}
    with pytest.raises(InvalidManifests) as of_commit:
        load(repo.read(commit(open_repo, {**beside})))
    said = [str(each) for each in of_folder.value.problems]
    assert [str(each) for each in of_commit.value.problems] == said
    return said


def test_a_missing_file_is_named_at_its_line_with_the_nearest_name(home: Path, repo: ClusterRepo) -> None:
    assert problems(home, repo, text("jobs/trian.py"), **{"train.py": SCRIPT}) == [
        'jobs/train.yaml:8:7: spec.files[0]: there is no file "jobs/trian.py", from the root of the repository; did you'
        ' mean "jobs/train.py"?'
    ]


@pytest.mark.parametrize("wrong", ["train.py", "elsewhere/train.py"])
def test_a_path_from_the_folder_of_the_manifest_is_answered_with_the_one_from_the_root(
    home: Path, repo: ClusterRepo, wrong: str
) -> None:
    assert problems(home, repo, text(wrong), **{"train.py": SCRIPT}) == [
        f'jobs/train.yaml:8:7: spec.files[0]: there is no file "{wrong}", from the root of the repository; did you'
        ' mean "jobs/train.py"?'
    ]


def test_a_folder_is_no_file(home: Path, repo: ClusterRepo) -> None:
    assert problems(home, repo, text("jobs/hpl"), **{"hpl/HPL.dat": b"1"}) == [
        'jobs/train.yaml:8:7: spec.files[0]: "jobs/hpl" is a folder; name its files, one by one'
    ]


def test_files_have_a_bound_alone_and_together(home: Path, repo: ClusterRepo) -> None:
    large = b"x" * (FILES_BYTES_MAX + 1)
    (said,) = problems(home, repo, text("jobs/large"), large=large)
    assert said.startswith('jobs/train.yaml:8:7: spec.files[0]: "jobs/large" has 1048577 bytes')
    half = b"x" * (FILES_BYTES_MAX // 2 + 1)
    with pytest.raises(InvalidManifests, match=r"spec\.files: expected at most 1 MiB in all files together"):
        load({MANIFEST: text("a", "b").encode(), "a": Beside(half), "b": Beside(half)})


def test_links_are_not_followed(repo: ClusterRepo, person: Person) -> None:
    (person.clone / "jobs").mkdir()
    (person.clone / "jobs" / "link").symlink_to("/etc/passwd")
    revision = pushed_aside(person, {MANIFEST: text("jobs/link").encode()})
    for files in (repo.read(revision), read_directory(person.clone)):
        with pytest.raises(InvalidManifests, match=r'"jobs/link" is a link or a submodule'):
            load(files)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        (text("{path: a.py, data: Zm9v}"), "8:26: spec.files[0].data"),
        (text(manifestPath="jobs/other.yaml"), "7:17: spec.manifestPath"),
    ],
)
def test_nobody_sets_what_the_reconciler_sets(wrong: str, path: str) -> None:
    with pytest.raises(InvalidManifests) as found:
        load({"a.yaml": wrong.encode(), "a.py": Beside(b"")})
    assert str(found.value.problems[0]) == (f"a.yaml:{path}: this is set when a commit is read: remove it")


# --- apply, diff ---------------------------------------------------------------------------------------


def typed(
    home: Path, monkeypatch: pytest.MonkeyPatch, *files: str, script: bytes | None = SCRIPT
) -> tuple[Document, ...]:
    """The documents of `apply -f jobs/train.yaml`."""
    (home / "jobs").mkdir(exist_ok=True)
    (home / MANIFEST).write_text(text(*files))
    if script is not None:
        (home / "jobs" / "train.py").write_bytes(script)
    monkeypatch.chdir(home)
    return load(read_paths([MANIFEST], lambda: b""), part=True)


def test_an_apply_commits_the_files_that_come_with_a_job(
    repo: ClusterRepo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = apply_documents({}, typed(home, monkeypatch, "jobs/train.py"))
    assert edit.changes["jobs/train.py"] == SCRIPT
    revision = repo.commit(None, edit.changes, "apply", AUTHOR)
    files = repo.read(revision)
    assert contents(job(load(files))) == {"jobs/train.py": SCRIPT}
    again = apply_documents(files, typed(home, monkeypatch, "jobs/train.py"))
    assert (again.changes, again.results[0].action) == ({}, "unchanged")
    changed = apply_documents(files, typed(home, monkeypatch, "jobs/train.py", script=b"print(2)\n"))
    assert (changed.changes, changed.results[0].action) == ({"jobs/train.py": b"print(2)\n"}, "configured")


def test_an_apply_takes_files_that_are_in_the_repository_already(
    repo: ClusterRepo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = repo.read(committed(repo))
    edit = apply_documents(files, typed(home, monkeypatch, "jobs/train.py", script=None))
    assert (edit.changes, edit.results[0].action) == ({}, "unchanged")
    with pytest.raises(InvalidManifests, match=r'there is no file "jobs/other\.py"'):
        apply_documents(files, typed(home, monkeypatch, "jobs/other.py", script=None))


def test_hidden_files_are_not_taken_from_a_working_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id").write_text("secret")
    (found,) = typed(home, monkeypatch, ".ssh/id")
    assert job((found,)).spec.files[0].data is None


def test_a_difference_shows_a_hash_and_no_content(
    repo: ClusterRepo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = load(repo.read(committed(repo)))
    assert diff(present, typed(home, monkeypatch, "jobs/train.py")) == ()
    (found,) = diff(present, typed(home, monkeypatch, "jobs/train.py", script=b"print(2)\n"))
    lines = [line for line in found.text.splitlines() if line[:1] in "+-"]
    assert [line.partition("sha256:")[1] for line in lines[2:]] == ["sha256:", "sha256:"]


def test_a_field_of_a_job_is_changed_alone(repo: ClusterRepo) -> None:
    files = repo.read(committed(repo))
    edit = set_fields(files, {("Job", "train"): {("spec", "priority"): 5}})
    assert edit.changes.keys() == {MANIFEST}
    assert set_fields(files, {("Job", "train"): {("spec", "nodes"): 1}}).results[0].action == "unchanged"


def test_files_travel_in_messages(repo: ClusterRepo) -> None:
    files = repo.read(committed(repo))
    assert load(unpacked(*packed(files))) == load(files)
    assert NODE.encode() not in files.values()
