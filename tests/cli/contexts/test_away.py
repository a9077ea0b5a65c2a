"""A cluster on another machine, over a real SSH server: what reads, what writes, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live import Live, live, manifest, running
from tests.needs import needing
from tests.ports import free_port
from tests.processes import listed
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.second_tier


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


@pytest.fixture(scope="module")
@needing("sshd", "ssh")
def server() -> Iterator[Sshd]:
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = Sshd(folder / "sshd", free_port())
    asyncio.run_coroutine_threadsafe(made.start(), loop).result(60)
    made.authorized.write_text(make_key(folder / "key") + "\n")
    machine = made.machine
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {machine.host_key}\n")
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()
    shutil.rmtree(folder)


class Person:
    """Somebody at another machine, with a file of contexts and an account of their own."""

    def __init__(self, folder: Path, server: Sshd, home: Path) -> None:
        self.folder = folder
        self.where = f"ssh://{server.machine.user}@127.0.0.1:{server.port}"
        keys = server.place.parent
        self.options = ("--identity-file", str(keys / "key"), "--known-hosts", str(keys / "known_hosts"))
        self.home = home
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RECONCILER_")},
            "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(keys),
            "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com",
        }  # fmt: skip

    def types(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "reconciler", *words],
            env=self.environment, input=stdin, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip


@pytest.fixture
def person(tmp_path: Path, server: Sshd, cluster: Live) -> Person:
    made = Person(tmp_path, server, cluster.home)
    added = made.types("context", "add", "studio", made.where, "--home", str(cluster.home), *made.options)
    assert added.returncode == 0, added.stderr
    return made


def test_a_command_that_reads_works_as_here(person: Person, server: Sshd, cluster: Live) -> None:
    before = server.logins()
    there = person.types("--context", "studio", "get", "deployments", "-o", "name")
    assert (there.returncode, there.stderr) == (0, "")
    assert there.stdout == cluster.run("get", "deployments", "-o", "name").stdout
    assert server.logins() - before == 1
    assert person.types("get", "md", "--context=studio").stdout.startswith("NAME ")
    assert not list(server.place.parent.glob("rec-*")), "it leaves nothing"


def test_a_change_is_a_commit_there_by_whoever_typed_it(person: Person, server: Sshd, cluster: Live) -> None:
    person.types("context", "use", "studio")
    before = server.logins()
    done = person.types("scale", "big", "--replicas=3", "-m", "More for the evening")
    assert (done.returncode, done.stdout) == (0, "modeldeployment.reconciler/big scaled\n"), done.stderr
    assert "reconciler: revision" in done.stderr
    assert server.logins() - before == 1, "one connection carries the socket and git"
    history = cluster.run("rollout", "history", "big", "-o", "json").stdout
    assert '"author": "Ada"' in history
    assert "More for the evening" in history
    assert "More for the evening" in person.types("rollout", "history", "big", "-o", "json").stdout
    replicas = person.types("get", "md/big", "-o", "jsonpath={.spec.replicas}")
    assert (replicas.stdout, replicas.stderr) == ("3", "")


def test_a_change_of_somebody_else_meanwhile_is_kept(person: Person, cluster: Live) -> None:
    person.types("--context", "studio", "rollout", "history", "big")  # there is a copy now
    cluster.apply(manifest("tiny").replace("model: tiny}", "model: tiny, replicas: 4}"))
    assert person.types("--context", "studio", "scale", "big", "--replicas=1").returncode == 0
    assert cluster.run("get", "md/tiny", "-o", "jsonpath={.spec.replicas}").stdout == "4"


def test_what_the_hooks_there_refuse_is_shown(person: Person) -> None:
    wrong = manifest("tiny").replace("model: tiny}", "model: tiny, replicas: -1}")
    done = person.types("--context", "studio", "apply", "-f", "-", stdin=wrong)
    assert done.returncode == 1
    assert "spec.replicas" in done.stderr


def test_a_watch_ends_its_connection_however_it_ends(
    person: Person, cluster: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Live(person.folder)
    other.command = lambda *words: [cluster.command()[0], "-m", "reconciler", *words]  # type: ignore[method-assign]
    for name, value in person.environment.items():
        monkeypatch.setenv(name, value)
    with running(other, "--context", "studio", "get", "nodes", "-w") as watch:
        watch.wait_for(lambda lines: any(line.startswith("node-a") for line in lines))
        watch.end(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any("cat >/dev/null" in process.command for process in listed()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_cannot_get_there_is_told_what_to_type(person: Person, server: Sshd, tmp_path: Path) -> None:
    unknown = person.types(
        "context", "add", "x", person.where, *person.options[:2], "--known-hosts", "/dev/null"
    )
    assert unknown.returncode == 1
    assert "connect once and compare it: ssh -p" in unknown.stderr
    make_key(tmp_path / "other")
    barred = person.types(
        "context", "add", "x", person.where, "--identity-file", str(tmp_path / "other"), *person.options[2:]
    )
    assert "does not let this user in" in barred.stderr
    nobody = person.types("context", "add", "x", f"ssh://me@127.0.0.1:{free_port()}", *person.options)
    assert "cannot be reached" in nobody.stderr
    person.types("context", "add", "x", person.where, "--home", "/nowhere", *person.options)
    empty = person.types("--context", "x", "get", "nodes")
    assert f"error: no controller answers in /nowhere on {person.where}" in empty.stderr
    assert empty.returncode == 1


def test_the_usual_home_there_is_asked_for(person: Person, server: Sshd) -> None:
    added = person.types("context", "add", "usual", person.where, *person.options)
    assert added.stdout == f'context "usual" added: {person.where}{server.place}/.reconciler\n', added.stderr


def test_an_operation_is_written_there(person: Person, cluster: Live) -> None:
    done = person.types("--context", "studio", "cordon", "node-a", "-m", "the fan is loud")
    assert (done.returncode, done.stdout) == (0, "node/node-a cordoned\n"), done.stderr
    assert (
        "operation cordon by Ada <ada@example.com> (InForce): the fan is loud"
        in cluster.run("trace", "node-a").stdout
    )
    assert person.types("--context", "studio", "uncordon", "node-a").stdout == "node/node-a uncordoned\n"
