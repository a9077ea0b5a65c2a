"""States of a home in which no controller runs: its files, its repository, its store and the remote that it follows."""

from __future__ import annotations

import asyncio
import os
import shlex
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from reconciler.bootstrap import Home
from reconciler.bootstrap.store import open_store
from reconciler.cli.core.client import LOCK_NAME
from reconciler.doctor import examine_repository
from reconciler.errors import ReconcilerError
from reconciler.source.git.layout import damage
from reconciler.source.mirror.looking import Look, Remote
from reconciler.source.mirror.settings import load_settings
from reconciler.source.mirror.transport import _place, _readable
from reconciler.source.sources import DirectorySource, GitSource
from reconciler.store import EventFilter, Store
from tests.cli.live import API, manifest
from tests.controller.test_desired_state import Controller as Reading
from tests.inventory.probes.mac import Mac
from tests.source.conftest import NODE, Person
from tests.source.mirror.conftest import judged, made_remote, pushed, sent
from tests.store.test_damage import spoil

from .bench import Bench
from .scenes import Scene, Scenes, elsewhere

SCENES = Scenes()
HASH = "sha256:" + "a" * 64


def said_by(act: Callable[[], object]) -> str:
    """What the error says that ends it; empty where none does."""
    try:
        act()
    except ReconcilerError as error:
        return str(error)
    return ""


# --- what was typed ------------------------------------------------------------------------------------


@SCENES.at("cli/core/app.py", "context list")
def the_option_that_names_a_context(bench: Bench) -> Iterator[Scene]:
    yield Scene(lambda: bench.types(["reconciler", "--help"]).out, mends=False)


@SCENES.at("cli/commands/write/edit.py", "apply -f {x}")
def mistakes_that_stay(bench: Bench) -> Iterator[Scene]:
    bench.has_texts(manifest("node-a"))
    drafts = bench.folder / "my drafts"
    drafts.mkdir()
    bench.monkeypatch.setattr("tempfile.tempdir", str(drafts))
    edit = bench.file("edit", "sed -i 's/local: {}/local: many/' \"$1\"\n")
    bench.monkeypatch.setenv("EDITOR", f"sh {edit}")
    said = bench.calls("edit", "node/node-a").err

    def correct() -> None:
        (draft,) = drafts.iterdir()
        draft.write_text(draft.read_text().replace("many", "{}"))

    yield Scene(lambda: said, before=correct, mends=False)


@SCENES.at("source/yaml/documents.py", "key create {x}")
def a_secret_that_two_keys_share(bench: Bench) -> Iterator[Scene]:
    one, two = (
        f'{API}kind: ApiKey\nmetadata: {{name: {name}}}\nspec: {{hash: "{HASH}"}}\n'
        for name in ("one", "two")
    )
    bench.has_texts(one)
    file = bench.file("two.yaml", two)
    yield Scene(lambda: bench.calls("apply", "-f", file).err, mends=False)
    assert b"name: two" in b"".join(bench.repo.read(bench.repo.head() or "").values())


@SCENES.at("cli/commands/ci/comment.py", "ci comment DIR --print")
def no_step_of_a_workflow(bench: Bench) -> Iterator[Scene]:
    bench.monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    bench.file("review/plan.txt", "+ modeldeployment/tiny: form tiny/0\n")
    values = {"DIR": str(bench.folder / "review")}
    yield Scene(lambda: bench.calls("ci", "comment", values["DIR"]).err, values, mends=False)


@SCENES.at("cli/commands/ci/templates.py", "ci init {x}")
def a_workflow_that_was_written(bench: Bench) -> Iterator[Scene]:
    subprocess.run(["git", "init", "--quiet", str(bench.folder)], check=True)
    wheel = Path(bench.file("tools/mlx_reconciler-1.2.3-py3-none-any.whl", "a wheel"))
    written = bench.calls("ci", "init", "github", "--wheel", str(wheel.relative_to(bench.folder)))
    assert written.code == 0, written
    (workflow,) = (bench.folder / ".github" / "workflows").iterdir()
    yield Scene(workflow.read_text, then="say where the workflow gets reconciler from")


@SCENES.at("cli/core/client.py", "logs --controller")
def a_controller_that_does_not_come_up(bench: Bench) -> Iterator[Scene]:
    bench.file("a home/logs/controller.log", "the reason\n")
    (bench.home / LOCK_NAME).write_text(str(os.getppid()))
    bench.monkeypatch.setattr("reconciler.cli.core.client.START_SECONDS", 0.0, raising=False)
    yield Scene(lambda: bench.calls("get", "all").err, mends=False)


@SCENES.at("cli/commands/installed/upgrade.py", "upgrade VERSION")
def the_only_version(bench: Bench) -> Iterator[Scene]:
    """Where to take another one from is asked next: nobody may take the product's name on an index."""
    _installed(bench)
    then = "give the wheel or the clone with --from PATH"
    yield Scene(lambda: bench.calls("rollback").err, {"VERSION": "0.2.0"}, then=then)


def _installed(bench: Bench) -> None:
    python = bench.home / "versions" / "0.1.0" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/usr/bin/true")
    (bench.home / "versions" / "current").symlink_to("0.1.0")


@SCENES.at("inventory/examination/record.py", "node examine HOST")
def no_file_of_an_examination(bench: Bench) -> Iterator[Scene]:
    bench.monkeypatch.setenv("PATH", f"{bench.folder / 'tools'}:{os.environ['PATH']}")
    bench.monkeypatch.setenv("TERM_PROGRAM", "Apple_Terminal")
    bench.monkeypatch.delenv("SSH_CONNECTION", raising=False)
    (bench.folder / "tools").mkdir()
    Mac(bench.folder / "tools")
    file = bench.file("notes.txt", "notes\n")
    said = bench.calls("node", "examine", "--file", file).err
    yield Scene(lambda: said, {"HOST": "localhost"}, mends=False, codes=(0, 1))
    written = str(bench.folder / "examination-localhost.txt")
    assert "expected reconciler examination" not in bench.calls("node", "examine", "--file", written).err


# --- what is damaged ---------------------------------------------------------------------------------------


def _served_and_kept(bench: Bench) -> str:
    """A home with a repository and a store, and its backup."""
    bench.has_texts(manifest("node-a"))
    Store(bench.home / "store.db").close()
    backup = str(bench.folder / "backup.tar.gz")
    assert bench.calls("backup", "-o", backup).code == 0
    return backup


@SCENES.at("bootstrap/store.py", "restore --force FILE")
def a_store_that_was_damaged(bench: Bench) -> Iterator[Scene]:
    backup = _served_and_kept(bench)
    spoil(bench.home / "store.db")

    def said() -> str:
        store = open_store(Home(bench.home), 0.0)
        found = store.events(EventFilter())
        store.close()
        return elsewhere(bench, "\n".join(event.message for _, event in found))

    yield Scene(said, {"FILE": backup})


@SCENES.at("store/connection.py", "restore --force FILE")
def a_store_that_cannot_be_used(bench: Bench) -> Iterator[Scene]:
    backup = _served_and_kept(bench)
    with sqlite3.connect(bench.home / "store.db") as database:
        database.execute("DROP TABLE agents")
    yield Scene(lambda: elsewhere(bench, said_by(lambda: _all_of(bench))), {"FILE": backup})


def _all_of(bench: Bench) -> None:
    store = Store(bench.home / "store.db")
    try:
        store.agents.all()
    finally:
        store.close()


@SCENES.at("source/git/repository.py", "init")
@SCENES.at("doctor/state_directory.py", "init", "restore --force FILE")
def a_repository_that_is_damaged(bench: Bench) -> Iterator[Scene]:
    backup = _served_and_kept(bench)
    place = bench.home / "cluster.git"
    for each in (place / "objects").glob("??/*"):
        each.unlink()

    def said() -> str:
        texts = [elsewhere(bench, finding.steps) for finding in examine_repository(str(place), damage(place))]
        return "\n".join((*texts, bench.calls("label", "node/node-a", "a=b").err if texts else ""))

    (steps,) = (finding.steps for finding in examine_repository(str(place), damage(place)))
    away = next(
        part.removeprefix("move it away: ") for part in steps.split("; ") if part.startswith("move it")
    )
    yield Scene(
        said,
        {"FILE": backup},
        before=lambda: subprocess.run(shlex.split(away), check=True, capture_output=True),
    )
    assert Path(f"{place}.damaged").exists()


# --- what a remote says ------------------------------------------------------------------------------


class Follower:
    """A home that follows a remote repository, with the settings that are there."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        bench.home.mkdir(mode=0o700)
        self.remote = made_remote(bench.folder / "remote.git")
        self.last: Look | None = None
        assert bench.calls("source", "set", str(bench.folder / "remote.git")).code == 0

    def look(self) -> Look:
        spec = load_settings(self.bench.home / "source.yaml")
        assert spec is not None
        remote = Remote(self.bench.repo, judged, lambda: None, dict(os.environ))
        remote.configure(spec)
        self.last = remote.look(spec, self.last, True)
        return self.last

    def said(self) -> str:
        self.last = None
        return elsewhere(self.bench, self.look().refusal)


@SCENES.at("source/mirror/looking.py", "source set --allow-rewind")
def a_branch_that_was_rewound(bench: Bench) -> Iterator[Scene]:
    home = Follower(bench)
    pushed(home.remote, NODE)
    home.look()
    pushed(home.remote, NODE + "# more\n")
    home.look()
    home.remote.git("reset", "--quiet", "--hard", "HEAD~1")
    sent(home.remote, force=True)
    yield Scene(home.said)
    assert bench.repo.head() == home.remote.git("rev-parse", "HEAD")[1].strip()


@SCENES.at("source/git/repository.py", "source set --path FOLDER")
def a_folder_that_is_not_there(bench: Bench) -> Iterator[Scene]:
    home = Follower(bench)
    pushed(home.remote, NODE, "clusters/a.yaml")
    assert bench.calls("source", "set", "--path", "cluster").code == 0
    yield Scene(home.said, {"FOLDER": "clusters"})
    assert list(bench.repo.read(bench.repo.head() or "")) == ["clusters/a.yaml"]


@SCENES.at("state/desired.py", "source set --path FOLDER")
def another_folder_with_less(bench: Bench) -> Iterator[Scene]:
    home = Follower(bench)
    node = "---\n".join(NODE.replace("name: a", f"name: {name}") for name in "abcd")
    home.remote.commits(node, "all/nodes.yaml")
    pushed(home.remote, NODE, "one/a.yaml")
    assert bench.calls("source", "set", "--path", "all").code == 0
    home.look()
    reading = Reading(GitSource(bench.repo), bench.folder / "desired.db")
    asyncio.run(reading.look())
    assert bench.calls("source", "set", "--path", "one").code == 0

    def said() -> str:
        hold = asyncio.run(reading.look()).hold
        return elsewhere(bench, hold.text) if hold else ""

    yield Scene(said, {"FOLDER": "all"})
    reading.store.close()


@SCENES.at("source/mirror/transport.py", "source set {x}")
def a_remote_that_has_moved(bench: Bench) -> Iterator[Scene]:
    before, after = "https://git.example/cluster.git", "https://git.example/renamed.git"
    bench.home.mkdir(mode=0o700)
    assert bench.calls("source", "set", before).code == 0

    def said() -> str:
        spec = load_settings(bench.home / "source.yaml")
        assert spec is not None
        return elsewhere(bench, _place(spec.url, f"{after}/info/refs?service=git-upload-pack"))

    yield Scene(said)


@SCENES.at("source/mirror/transport.py", "source show")
def a_file_that_is_not_there(bench: Bench) -> Iterator[Scene]:
    bench.home.mkdir(mode=0o700)
    key, file = bench.file("key", "x\n"), bench.file("hosts", "x\n")
    assert (
        bench.calls("source", "set", "git@git.example:c.git", "--ssh-key", key, "--known-hosts", file).code
        == 0
    )
    Path(file).unlink()
    yield Scene(lambda: elsewhere(bench, said_by(lambda: _readable(file))), mends=False)
    assert f"Host keys:  {file}" in bench.calls("source", "show").out


@SCENES.at("source/hook.py", "source set URL --path DIR")
def a_repository_with_other_things(bench: Bench) -> Iterator[Scene]:
    from reconciler.source.hook import OTHER_THINGS

    bench.home.mkdir(mode=0o700)
    remote = made_remote(bench.folder / "remote.git")
    remote.commits("version: 3\nservices: {}\n", "compose.yaml")
    pushed(remote, NODE, "clusters/a.yaml")
    clone = Person(bench.folder / "work")
    clone.git("remote", "add", "home", str(bench.repo.path))
    _, refused = clone.pushes("home", "HEAD:main")
    assert set(OTHER_THINGS) <= {line.removeprefix("remote: ").strip() for line in refused} | set(refused), (
        refused
    )
    values = {"URL": str(bench.folder / "remote.git"), "DIR": "clusters"}
    yield Scene(lambda: elsewhere(bench, "\n".join(refused)), values, mends=False)
    home = Follower.__new__(Follower)
    home.bench, home.last = bench, None
    assert home.look().moved


# --- what is wrong in a folder ---------------------------------------------------------------------------


@SCENES.at("controller/desired_state.py", "validate -f DIR")
def more_mistakes_than_are_shown(bench: Bench) -> Iterator[Scene]:
    folder = bench.folder / "manifests"
    for number in range(30):
        bench.file(f"manifests/{number}.yaml", "kind: Nod\n")
    reading = Reading(DirectorySource(folder), bench.folder / "desired.db")
    rejection = asyncio.run(reading.look()).rejection
    reading.store.close()
    assert rejection is not None
    yield Scene(lambda: elsewhere(bench, rejection.text), {"DIR": str(folder)}, then="29.yaml:1")
