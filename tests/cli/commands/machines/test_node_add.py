"""`node add`, with a real SSH server on loopback."""

from __future__ import annotations

import asyncio
import getpass
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from reconciler.cli.commands.machines import examine
from reconciler.source.yaml.documents import load
from tests.cli.commands.machines.apart import run_apart
from tests.needs import needing
from tests.ports import free_port
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.processes


class Place:
    """A home, the home of whoever types, and a machine to be added."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "mine" / ".ssh").mkdir(parents=True)
        self.sshd = Sshd(folder / "sshd", free_port(), f"SetEnv HOME={folder}\n")
        self.sshd.authorized.write_text(make_key(folder / "mine" / ".ssh" / "id_ed25519") + "\n")

    @property
    def host(self) -> tuple[str, ...]:
        machine = self.sshd.machine
        return (f"{machine.user}@{machine.host}", "--port", str(machine.port))

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        return await run_apart(self.folder / "h", self.folder / "mine", "node", *arguments)

    async def committed(self) -> dict[str, Any]:
        git = ["git", "-C", str(self.folder / "h" / "cluster.git"), "show", "main:studio-1.yaml"]
        shown = await asyncio.to_thread(subprocess.run, git, capture_output=True, text=True, check=True)
        return dict(yaml.safe_load(shown.stdout))

    def fingerprint(self) -> str:
        listing = ["ssh-keygen", "-lf", str(self.sshd.place / "host_key.pub")]
        return subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split()[1]


@pytest.fixture
@needing("sshd", "ssh-keygen")
async def place() -> AsyncIterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="add-")))
    await made.sshd.start()
    yield made
    await made.sshd.stop()
    shutil.rmtree(made.folder)


async def test_a_machine_is_looked_at_and_its_manifest_committed(place: Place) -> None:
    words = ("--name", "studio-1", "--label", "pool=studios", "--yes", "--commit")
    status, out, err = await place.run("add", *place.host, *words)
    assert status == 0, err
    assert place.fingerprint() in err
    assert "GiB" in out.splitlines()[0], "what it is, as a comment"
    assert out.endswith("node.reconciler/studio-1 created\n")
    machine = place.sshd.machine
    assert await place.committed() == {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "Node",
        "metadata": {"name": "studio-1", "labels": {"pool": "studios"}},
        "spec": {
            "ssh": {
                "host": machine.host, "port": machine.port, "user": machine.user, "hostKey": machine.host_key,
            }
        },
    }  # fmt: skip
    status, _, err = await place.run("add", *place.host, *words)
    again = f"reconciler --home {place.folder / 'h'} node add --again studio-1"
    assert (status, again in err) == (1, True)


async def test_without_a_person_and_without_commit_the_manifest_is_only_printed(place: Place) -> None:
    status, out, err = await place.run("add", *place.host, "-o", "yaml")
    assert status == 0
    (document,) = load({"node.yaml": out.encode()})
    assert document.manifest.metadata.name == "127-0-0-1"
    assert (
        "log"
        not in (place.sshd.place / "log").read_text().replace("Server listening", "").split("Accepted")[1:]
    )
    status, out, err = await place.run("add", *place.host)
    assert (status, "not committed; repeat the command with --commit" in err) == (0, True)
    assert not (place.folder / "h" / "cluster.git").exists()


async def test_a_login_that_is_refused_keeps_nobody_from_writing_the_manifest(place: Place) -> None:
    place.sshd.authorized.write_text("")
    status, out, err = await place.run("add", *place.host, "--yes", "-o", "yaml")
    assert status == 0
    assert "refuses the login of user" in err
    assert "ssh-copy-id" in err
    assert "hostKey: ssh-ed25519" in out


async def test_a_new_host_key_is_taken_in_only_when_it_is_agreed_to(place: Place) -> None:
    await place.run("add", *place.host, "--name", "studio-1", "--commit")
    status, out, _ = await place.run("add", "--again", "studio-1")
    assert (status, out) == (0, "node/studio-1 unchanged: its manifest already has this key\n")
    before, old = await place.committed(), place.fingerprint()
    await place.sshd.stop()
    for file in ("host_key", "host_key.pub"):
        (place.sshd.place / file).unlink()
    make_key(place.sshd.place / "host_key")
    await place.sshd.start()
    status, _, err = await place.run("add", "--again", "studio-1")
    assert status == 1
    assert old in err
    assert place.fingerprint() in err
    assert await place.committed() == before
    status, out, _ = await place.run("add", "--again", "studio-1", "--commit")
    assert (status, out) == (0, "node.reconciler/studio-1 configured\n")
    assert (await place.committed())["spec"]["ssh"]["hostKey"] == place.sshd.machine.host_key


async def test_where_there_is_no_server_it_is_said(place: Place) -> None:
    status, _, err = await place.run("add", "127.0.0.1", "--port", str(free_port()), "--yes")
    assert (status, "no SSH server answers at 127.0.0.1" in err) == (1, True)


@pytest.mark.parametrize(
    ("words", "option", "user"),
    [("ann@studio.local", "eve", "eve"), ("ann@studio.local", None, "ann"), ("studio.local", None, "me")],
    ids=["the option", "the words", "whoever types"],
)
def test_the_user_is_that_of_the_option_or_of_the_words_or_who_types(
    monkeypatch: pytest.MonkeyPatch, words: str, option: str | None, user: str
) -> None:
    monkeypatch.setattr(examine, "presented", lambda host, port: SimpleNamespace(line="a key"))
    monkeypatch.setattr(getpass, "getuser", lambda: "me")
    ssh, agreed = examine.met(words, {"port": None, "user": option, "yes": True}, "add")
    assert (ssh, agreed) == ({"host": "studio.local", "user": user, "hostKey": "a key"}, True)
