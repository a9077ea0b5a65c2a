"""The gateway of another machine: seen as it is, started, continued and ended where it runs. No other process with its
number is touched. The scripts are real; the machine is this one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from reconciler.agent.system.process import states
from reconciler.errors import Unreachable
from reconciler.remote.bootstrap.profile import Profile
from reconciler.remote.commands import Completed, run_locally
from reconciler.remote.nodes.gateway import GatewayFiles, GatewayState, NodeGateway, digest_of_files
from reconciler.remote.runtime.gateway_file import gateway_file

pytestmark = [pytest.mark.processes, pytest.mark.needs("ps")]

SLEEPS = "import time; print('begun', flush=True); time.sleep(600)"
GATEWAY = """
import json, os, pathlib, signal, subprocess, sys, time
file, home, *more = sys.argv
if more:
    log = open(home + '/gateway.log', 'ab')
    subprocess.Popen([sys.executable, '-I', file, home], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    sys.exit(0)
print('a first line', 'its last words', sep='\\n', flush=True)
here = pathlib.Path(home)
(here / 'gateway.json').write_text(json.dumps({'pid': os.getpid(), 'problem': ''}) + '\\n')
(here / 'gateway.lock').write_text(f'{os.getpid()}\\n')
time.sleep(600)
"""
FILES = GatewayFiles(b'{"routes": []}', {"gateway": b"secret", "jump-a": b"other"})


class Here:
    """This machine, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / ".reconciler"
        self.folder = self.root / "front"
        self.program = self.root / "agents" / gateway_file().name
        self.commands = 0
        self.written: list[str] = []

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109
        self.commands += 1
        return await run_locally(*argv, timeout=timeout)

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None:
        self.written.append(path.name)
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(mode)

    async def profile(self) -> Profile:
        home = PurePosixPath(self.root.parent)
        return Profile(home, "Linux", "x86_64", "me", 1000, "here", python=sys.executable)

    def has_program(self) -> None:
        """Have a program that is started as the gateway is, and does nothing."""
        self.program.parent.mkdir(parents=True)
        self.program.write_text(GATEWAY)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@pytest.fixture
def gateway(here: Here) -> NodeGateway:
    return NodeGateway(here, "b")


@contextmanager
def started(*words: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def running(here: Here, name: str = "gateway-1.pyz") -> Iterator[subprocess.Popen[str]]:
    """A gateway of another version."""
    here.folder.mkdir(parents=True, exist_ok=True)
    here.program.parent.mkdir(parents=True, exist_ok=True)
    program = here.program.with_name(name)
    program.write_text(SLEEPS)
    with started(sys.executable, "-I", program, here.folder) as process:
        (here.folder / "gateway.lock").write_text(f"{process.pid}\nstarted as\n")
        yield process


def until_state(pid: int, letters: str) -> None:
    deadline = time.monotonic() + 30
    while states([pid]).get(pid, "gone")[0] not in letters:
        assert time.monotonic() < deadline
        time.sleep(0.02)


async def until_running(gateway: NodeGateway, with_words: bool = False) -> GatewayState:
    """Look until a process is seen; ``with_words``, until it has written its state as well."""
    deadline = time.monotonic() + 30
    while (found := await gateway.look()).pid is None or (with_words and not found.said):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return found


async def test_where_nothing_is_nothing_is_seen_and_a_look_leaves_nothing(
    here: Here, gateway: NodeGateway
) -> None:
    assert await gateway.look() == GatewayState()
    assert not here.root.exists()


async def test_files_are_sent_where_they_differ_and_others_are_removed(
    here: Here, gateway: NodeGateway
) -> None:
    await gateway.look()
    await gateway.send(FILES)
    assert here.written == ["gateway", "jump-a", "routes.json"], "keys first: routes may need them"
    assert (here.folder / "routes.json").stat().st_mode & 0o777 == 0o600
    await gateway.look()
    await gateway.send(FILES)
    assert len(here.written) == 3
    (here.folder / "keys" / "gateway").write_bytes(b"changed there")
    await gateway.look()
    fewer = GatewayFiles(FILES.routes, {"gateway": b"secret"})
    await gateway.send(fewer)
    assert here.written[3:] == ["gateway"]
    found = await gateway.look()
    assert sorted(found.files) == ["keys/gateway", "routes.json"]


async def test_what_was_sent_has_the_digest_that_is_seen_there(gateway: NodeGateway) -> None:
    await gateway.send(FILES)
    assert digest_of_files((await gateway.look()).files) == FILES.digest
    assert GatewayFiles(b"{}", FILES.keys).digest != FILES.digest
    await gateway.remove_files()
    assert digest_of_files((await gateway.look()).files) == ""


async def test_a_gateway_is_started_once_and_seen_with_its_program_and_words(
    here: Here, gateway: NodeGateway
) -> None:
    here.has_program()
    older = here.program.with_name("gateway-0.pyz")
    older.write_text("")
    await gateway.start()
    found = await until_running(gateway, with_words=True)
    try:
        assert (found.stopped, found.program) == (False, here.program.name)
        assert (found.said["pid"], found.last_words) == (found.pid, "its last words")
        assert not older.exists()
        await gateway.start()
        assert (await gateway.look()).pid == found.pid
        await gateway.signal("STOP")
        assert (await gateway.look()).stopped
        await gateway.signal("TERM", "CONT")
        until_state(found.pid or 0, "gZ")
        assert (await gateway.look()).pid is None
        assert here.written == []
    finally:
        if (await gateway.look()).pid == found.pid is not None:
            os.kill(found.pid, signal.SIGKILL)


async def test_the_program_is_sent_where_it_is_missing(here: Here, gateway: NodeGateway) -> None:
    await gateway.start()
    assert here.written == [gateway_file().name]
    pid = (await until_running(gateway)).pid
    assert pid is not None
    try:
        await gateway.signal("TERM")
        until_state(pid, "gZ")
    finally:
        if (await gateway.look()).pid == pid:
            os.kill(pid, signal.SIGKILL)


async def test_one_that_cannot_be_started_says_why(here: Here, gateway: NodeGateway) -> None:
    here.program.parent.mkdir(parents=True)
    here.program.write_text("import nothing_like_this")
    with pytest.raises(Unreachable, match="nothing_like_this"):
        await gateway.start()


async def test_a_gateway_of_another_version_is_seen_with_its_program_and_not_started_twice(
    here: Here, gateway: NodeGateway
) -> None:
    with running(here) as process:
        await gateway.start()
        found = await gateway.look()
        assert (found.pid, found.program) == (process.pid, "gateway-1.pyz")
        os.kill(process.pid, signal.SIGSTOP)
        until_state(process.pid, "T")
        assert (await gateway.look()).stopped
        await gateway.signal("CONT")
        until_state(process.pid, "SR")
        await gateway.signal("TERM", "CONT")
        assert process.wait(30) == -signal.SIGTERM


async def test_one_that_has_not_written_its_lock_yet_is_found_not_started_twice_and_ended(
    here: Here, gateway: NodeGateway
) -> None:
    with running(here) as process:
        (here.folder / "gateway.lock").write_text("")
        await gateway.start()
        assert (await gateway.look()).pid == process.pid
        await gateway.signal("TERM")
        assert process.wait(30) == -signal.SIGTERM
    assert (await gateway.look()).pid is None


@pytest.mark.parametrize("act", ["look", "signal", "remove_files"])
async def test_another_process_with_the_number_in_a_copied_lock_is_left_alone(
    here: Here, gateway: NodeGateway, act: str
) -> None:
    here.folder.mkdir(parents=True)
    with started(sys.executable, "-c", SLEEPS, here.root / "elsewhere" / "front") as stranger:
        (here.folder / "gateway.lock").write_text(f"{stranger.pid}\n")
        os.kill(stranger.pid, signal.SIGSTOP)
        until_state(stranger.pid, "T")
        await getattr(gateway, act)(*(["TERM", "CONT"] if act == "signal" else []))
        assert states([stranger.pid])[stranger.pid] == "T"
        assert (await gateway.look()).pid is None


async def test_a_machine_that_prints_something_else_is_not_believed(here: Here, gateway: NodeGateway) -> None:
    async def run(argv: Sequence[str], *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109
        return Completed(0, "welcome to this machine\n\n", "")

    here.run = run  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="printed something else"):
        await gateway.look()


@pytest.mark.parametrize("said", ["", "not JSON", "[]", '"text"'])
async def test_words_that_cannot_be_read_are_none(here: Here, gateway: NodeGateway, said: str) -> None:
    here.folder.mkdir(parents=True)
    (here.folder / "gateway.json").write_text(said)
    assert (await gateway.look()).said == {}


def test_the_file_has_every_module_that_a_gateway_imports(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pyz"
    file.write_bytes(gateway_file().content)
    script = (
        "import importlib, pkgutil, sys; sys.path.insert(0, sys.argv[1]); import reconciler.gateway, reconciler.bootstrap.node_gateway\n"
        "assert reconciler.__file__.startswith(sys.argv[1])\n"
        "for each in pkgutil.walk_packages(reconciler.gateway.__path__, 'reconciler.gateway.'): importlib.import_module(each.name)\n"
        "import reconciler.bootstrap.gateway, reconciler.remote.relay\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(file)], capture_output=True, timeout=60, check=False
    )
    assert done.stderr.decode() == ""
