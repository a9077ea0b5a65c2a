"""What is said about machines over SSH is typed as it is said, at a real server; then it is done, or the next thing is said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.errors import ReconcilerError
from reconciler.planning.diagnosis.rules import TABLE
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.resources import Access, SshAccess
from tests.cli.conftest import Result, listening
from tests.needs import needing
from tests.ports import free_port
from tests.sshd import Sshd, make_key

from .bench import Bench, commands_in, filled
from .of_a_controller import cabled
from .scenes import elsewhere
from .test_healing import CASES, said

pytestmark = pytest.mark.second_tier
NAME = "node-b"
"""As in the worlds whose texts name it."""


class Machine:
    """A machine that somebody may log in to, and a thread in which its server is started."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        (bench.folder / "somebody" / ".ssh").mkdir()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.sshd = Sshd(bench.folder / "sshd", free_port(), f"SetEnv HOME={bench.folder}\n")
        self.sshd.authorized.write_text(make_key(bench.folder / "somebody" / ".ssh" / "id_ed25519") + "\n")
        self.does(self.sshd.start())

    def does(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def types(self, text: str, words: str, *more: str, stdin: str = "") -> Result:
        """Type the command of a text that begins so, with what else a person says of this machine."""
        found = [each for each in commands_in(text) if f" {words}" in each]
        assert found, text
        return self.bench.types([*filled(found[0], {"HOST": self.sshd.machine.host}), *more], stdin)

    def gets_another_key(self) -> None:
        self.does(self.sshd.stop())
        for file in ("host_key", "host_key.pub"):
            (self.sshd.place / file).unlink()
        make_key(self.sshd.place / "host_key")
        self.does(self.sshd.start())

    def problem(self) -> str:
        """What a controller says that logs in with what is committed; empty where it can."""
        (text,) = self.bench.repo.read(self.bench.repo.head() or "").values()
        ssh = SshAccess(**yaml.safe_load(text)["spec"]["ssh"])
        return elsewhere(self.bench, self.does(self._logs_in(Access(ssh=ssh))))

    async def _logs_in(self, access: Access) -> str:
        bundle = bundle_of(write_bundle(self.bench.folder / "bundle"))
        node = SshNode(NAME, access, bundle, asyncio.Semaphore(4), self.bench.folder / "gateway", None)
        try:
            await node.run(("true",), timeout=60)
        except ReconcilerError as error:
            return str(error)
        finally:
            await node.close()
        return ""

    def close(self) -> None:
        self.does(self.sshd.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
@needing("sshd", "ssh-keygen")
def machine(bench: Bench) -> Iterator[Machine]:
    bench.monkeypatch.setenv("SSH_AUTH_SOCK", "")
    made = Machine(bench)
    yield made
    made.close()


def test_a_machine_is_added_bootstrapped_and_given_another_key_as_it_is_said(machine: Machine) -> None:
    bench, its = machine.bench, ("--port", str(machine.sshd.port), "--name", NAME, "--yes")
    bench.home.mkdir(mode=0o700)
    with listening(bench.home) as controller:
        cabled(controller, [], [])
        lonely = bench.calls("fabric", "import").err
    shown = machine.types(lonely, "node add HOST", *its)
    assert shown.code == 0, shown
    added = machine.types(shown.err, "apply -f -", stdin=shown.out)
    assert (added.code, f"{NAME} created" in added.out) == (0, True), added
    there = bench.calls("node", "add", machine.sshd.machine.host, *its, "--commit").err
    assert (
        machine.types(there, "node add --again").out
        == f"node/{NAME} unchanged: its manifest already has this key\n"
    )
    assert machine.problem() == ""

    world = CASES["C14 a session that is over, beside"]().world
    says = [elsewhere(bench, text) for text in said(world)]
    says += [elsewhere(bench, row.person.replace("{node}", NAME)) for row in TABLE]
    for text in {each for each in says if f"node bootstrap {NAME}" in each}:
        done = machine.types(text, "node bootstrap")
        assert (done.code, done.err) == (0, "nothing was done; to do it, repeat the command with --yes\n"), (
            text
        )

    machine.gets_another_key()
    world = CASES["C0 another host key, seen"]().world
    (steps,) = {text for text in said(world) if f"node add --again {NAME}" in text}
    for text in (elsewhere(bench, steps), machine.problem()):
        refused = machine.types(text, "node add --again")
        assert (refused.code, "repeat the command with --commit" in refused.err) == (1, True), refused
    renewed = machine.types(machine.problem(), "node add --again", "--commit")
    assert renewed.code == 0, renewed
    assert machine.problem() == ""


def test_one_that_was_added_is_bootstrapped_next(machine: Machine) -> None:
    its = ("--port", str(machine.sshd.port), "--name", NAME, "--yes", "--commit")
    added = machine.bench.calls("node", "add", machine.sshd.machine.host, *its)
    assert added.code == 0, added
    assert machine.types(added.err, f"node bootstrap {NAME}").code == 0
    assert Path(machine.bench.home).exists()
