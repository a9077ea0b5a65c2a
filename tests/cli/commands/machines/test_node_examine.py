"""`node examine`: here, over a real SSH server, and from a file; with the scripted tools of a Mac."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.doctor.preconditions import PRECONDITIONS
from reconciler.inventory.examination.script import script
from tests.cli.commands.machines.apart import run_apart
from tests.cli.conftest import Cli
from tests.inventory.probes.mac import Mac
from tests.needs import needing
from tests.ports import free_port
from tests.sshd import Sshd, make_key

pytestmark = pytest.mark.processes


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mac:
    """This machine, as a Mac that somebody uses in Terminal.app."""
    (tmp_path / "tools").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM_PROGRAM", "Apple_Terminal")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return Mac(tmp_path / "tools")


def test_this_machine_is_examined_without_a_cluster(cli: Cli, mac: Mac) -> None:
    mac.set_output("fdesetup", "fdesetup/on")
    done = cli("node", "examine", "localhost")
    assert (done.code, "error" in done.err) == (1, False)
    lines = done.out.splitlines()
    assert lines[0] == "localhost: macOS 26.3 (25D125), Mac16,9, Apple M4 Max"
    assert max(map(len, lines)) <= 100
    assert (
        "  FAIL     FileVault     FileVault is on: after each restart localhost waits for a password" in lines
    )
    assert any(line.strip().startswith("to do   on localhost: sudo fdesetup disable") for line in lines)
    assert any(line.strip() == "see it  `fdesetup status` prints: FileVault is Off." for line in lines)
    assert "  pass     RDMA          RDMA is on" in lines
    assert "  left out power         it needs an administrator" in lines


def test_the_file_gives_the_same_verdicts_and_two_machines_are_compared(cli: Cli, mac: Mac) -> None:
    first = json.loads(cli("node", "examine", "localhost", "-o", "json").out)
    (machine,) = first["machines"]
    assert [each["name"] for each in machine["preconditions"]] == [row.name for row in PRECONDITIONS]
    kept = Path(machine["file"])
    assert kept.name == "examination-localhost.txt"
    kept.rename("examination-mini-1.txt")
    mac.set_output("sw_vers", "ProductName:\tmacOS\nProductVersion:\t26.2\nBuildVersion:\t25C56\n")
    cli("node", "examine", "localhost", "--folder", "kept")
    files = ("--file", "examination-mini-1.txt", "--file", "kept/examination-localhost.txt")
    done = cli("node", "examine", *files, "-o", "json")
    body = json.loads(done.out)
    assert body["machines"][0]["preconditions"] == [
        {**each, "text": each["text"].replace("localhost", "mini-1")} for each in machine["preconditions"]
    ]
    same = {each["name"]: each for each in body["compared"]}
    assert (done.code, same["same macOS"]["verdict"]) == (1, "fail")
    assert same["same macOS"]["text"] == "mini-1: 26.3 (25D125), localhost: 26.2 (25C56)"
    assert "on mini-1 and localhost: System Settings" in same["same macOS"]["steps"]
    assert "  FAIL     same macOS" in cli("node", "examine", *files).out


def test_what_is_no_file_of_an_examination_and_no_mac_is_refused(cli: Cli, mac: Mac, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes\n")
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00")
    assert (
        "notes.txt:1: expected reconciler examination 1" in cli("node", "examine", "--file", "notes.txt").err
    )
    assert "got bytes that are no text" in cli("node", "examine", "--file", "picture").err
    assert cli("node", "examine", "--file", "missing").err == "error: missing: No such file or directory\n"
    mac.set_output("uname", "Linux\n")
    done = cli("node", "examine", "localhost")
    assert (done.code, done.err) == (1, "error: localhost: this is no Mac: its system is Linux\n")
    assert cli("node", "examine").code == 2


def test_the_script_is_printed(cli: Cli) -> None:
    assert cli("node", "examine", "--print-script").out == script()


class Place:
    """A Mac with a real SSH server, and the home of whoever types."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("mine/.ssh", "tools", "ada"):
            (folder / name).mkdir(parents=True)
        self.mac = Mac(folder / "tools")
        path = f"SetEnv HOME={folder / 'ada'} PATH={folder / 'tools'}:/usr/bin:/bin\n"
        self.sshd = Sshd(folder / "sshd", free_port(), path)
        self.sshd.authorized.write_text(make_key(folder / "mine" / ".ssh" / "id_ed25519") + "\n")

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        machine, mine = self.sshd.machine, self.folder / "mine"
        words = ("node", "examine", f"{machine.user}@{machine.host}", "--port", str(machine.port), *arguments)
        return await run_apart(self.folder / "h", mine, *words, cwd=mine)


@pytest.fixture
@needing("sshd")
async def place() -> AsyncIterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="ex-")))
    await made.sshd.start()
    yield made
    await made.sshd.stop()
    shutil.rmtree(made.folder)


async def test_a_machine_is_examined_over_ssh_once_its_key_is_agreed_to(place: Place) -> None:
    code, out, err = await place.run("--yes", "-o", "json")
    machine = json.loads(out)["machines"][0]
    verdicts = {each["name"]: each["verdict"] for each in machine["preconditions"]}
    assert (machine["name"], verdicts["Remote Login"], verdicts["terminal"]) == (
        "127.0.0.1",
        "pass",
        "n/a",
    ), err
    assert "has the host key SHA256:" in err
    assert (place.folder / "mine" / "examination-127.0.0.1.txt").exists()
    assert [path.name for path in (place.folder / "ada").iterdir()] == [], "nothing is left there"
    code, out, err = await place.run()
    assert (code, out, "repeat the command with --yes" in err) == (1, "", True)


async def test_a_refused_login_says_what_to_do(place: Place) -> None:
    place.sshd.authorized.write_text("")
    code, out, err = await place.run("--yes")
    assert (code, out, "ssh-copy-id" in err) == (1, "", True)
