"""`node bootstrap`, on a real SSH server with a shaped machine behind it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.commands.machines.apart import run_apart
from tests.remote.shaped import LINUX, MAC, Shape
from tests.remote.test_ssh import Host

pytestmark = [pytest.mark.second_tier, pytest.mark.needs("sshd")]


class Place:
    """A home whose one Node is a shaped machine."""

    def __init__(self, tools: tuple[str, ...], sudo: bool) -> None:
        self.host = Host(Path(tempfile.mkdtemp(prefix="nb-")))
        self.shape = Shape(self.host.folder / "shape", tools, sudo)

    async def start(self) -> None:
        await self.host.sshd.start()
        await self.host.restart(f"SetEnv HOME={self.host.home} PATH={self.shape.path}\n")
        machine = self.host.sshd.machine
        ssh = {"host": machine.host, "port": machine.port, "user": machine.user, "hostKey": machine.host_key}
        node = {"metadata": {"name": "far"}, "spec": {"ssh": ssh, "python": sys.executable}}
        here = {"metadata": {"name": "here"}, "spec": {"local": {}}}
        manifests = [{"apiVersion": "reconciler/v1alpha1", "kind": "Node", **each} for each in (node, here)]
        (self.host.folder / "nodes.yaml").write_text("\n---\n".join(json.dumps(each) for each in manifests))
        assert (await self.run("apply", "-f", str(self.host.folder / "nodes.yaml")))[0] == 0

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        return await run_apart(self.host.folder / "h", self.host.mine, *arguments)

    async def reset(self, *options: str) -> tuple[int, str, str]:
        return await self.run("node", "reset", "far", *options)

    async def bootstrap(self, *options: str, node: str = "far") -> tuple[int, str, str]:
        return await self.run("node", "bootstrap", node, *options)


@pytest.fixture
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    made = Place(*request.param)
    await made.start()
    yield made
    made.shape.stop()
    await made.host.close()


@pytest.mark.parametrize("place", [(LINUX, True)], indirect=True, ids=["systemd"])
async def test_everything_is_said_then_done_and_again_nothing(place: Place) -> None:
    status, preview, err = await place.bootstrap()
    assert (status, err) == (0, "nothing was done; to do it, repeat the command with --yes\n")
    assert not place.shape.changes(), "nothing has been changed"
    assert not place.host.root.exists()
    status, out, err = await place.bootstrap("--yes")
    assert status == 0, err
    assert out.startswith(preview)
    assert out.endswith("node/far bootstrapped\n")
    for command in place.shape.changes():
        tool, _, words = command.partition(" ")
        assert f"$ {place.shape.bin}/sudo -n {place.shape.bin}/{tool} {words}\n" in preview
    assert "     | KillMode=process\n" in preview
    changes = place.shape.changes()
    status, out, _ = await place.bootstrap("--yes")
    assert (status, out.splitlines()[1:]) == (0, ["node/far unchanged: all is in place"])
    assert place.shape.changes() == changes
    await _taken_back(place, changes)


async def _taken_back(place: Place, changes: list[str]) -> None:
    """The same way: everything is said, then done, and again nothing."""
    status, preview, err = await place.reset()
    assert (status, err) == (0, "nothing was done; to do it, repeat the command with --yes\n")
    assert place.shape.changes() == changes
    status, out, err = await place.reset("--yes")
    assert status == 0, err
    assert out.startswith(preview)
    assert out.endswith("node/far reset\n")
    done = place.shape.changes()[len(changes) :]
    for command in done:
        tool, _, words = command.partition(" ")
        assert f"$ {place.shape.bin}/sudo -n {place.shape.bin}/{tool} {words}\n" in preview
    assert [command.split()[:2] for command in done] == [
        ["systemctl", "disable"],
        ["rm", "-f"],
        ["systemctl", "daemon-reload"],
    ]
    assert list(place.shape.root.rglob("reconciler-*")) == []
    status, out, _ = await place.reset("--yes")
    assert (status, out.splitlines()[1:]) == (0, ["node/far unchanged: no service keeps its agent running"])


@pytest.mark.parametrize("place", [(MAC, False)], indirect=True, ids=["mac without sudo"])
async def test_what_takes_a_password_is_printed_to_be_pasted(place: Place) -> None:
    status, text, err = await place.bootstrap("--yes")
    assert status == 0, err
    assert text.endswith("node/far bootstrapped except for the steps that a person must take there\n")
    for line in (
        "     sudo tee /Library/LaunchDaemons/reconciler-ada-far.plist <<'END-OF-FILE'\n",
        "' load reconciler-ada-far /Library/LaunchDaemons/reconciler-ada-far.plist sudo launchctl\n",
        "     sudo pmset -c sleep 0\n",
    ):
        assert line in text
    assert "rdma_ctl enable" in text
    assert list(place.host.root.rglob("*.plist")) == [], (
        "an administrator installs no file that the user could change"
    )
    (place.shape.folder / "sudo").write_text("yes")  # the administrator, who types the password
    pasted = text.partition("in a terminal of far")[2].partition("\n")[2].partition("\nnote: ")[0]
    done = await asyncio.to_thread(
        subprocess.run, ["/bin/sh", "-e"], input=pasted, text=True, check=False, timeout=40, capture_output=True,
        env={"PATH": place.shape.path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (place.shape.folder / "sudo").write_text("no")
    status, out, err = await place.bootstrap("--yes", "-o", "json")
    assert (status, err) == (0, "")
    body = json.loads(out)
    assert body["measures"] == []
    assert body["machine"]["keeper"] == "launchd"
    assert len(place.shape.pids()) == 1, "and the service has its agent"
    status, text, err = await place.reset("--yes")
    assert (status, err) == (0, "")
    assert text.endswith("node/far unchanged except for the steps that a person must take there\n")
    assert "' unload reconciler-ada-far '' sudo launchctl\n" in text
    assert len(place.shape.pids()) == 1


@pytest.mark.parametrize("place", [((), False)], indirect=True, ids=["no systemd"])
async def test_where_nothing_could_keep_an_agent_running_that_is_said(place: Place) -> None:
    status, out, _ = await place.bootstrap("--dry-run")
    assert (status, "note: there is no systemd" in out) == (0, True)
    assert out.endswith("node/far bootstrapped (dry run)\n")
    assert not place.host.root.exists()
    await place.host.sshd.stop()
    status, _, err = await place.bootstrap("--yes")
    assert (status, "cannot connect to" in err) == (1, True)
