"""Every command that machines over SSH are given, for many answers to them, compared with those that were recorded before."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import tarfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest

from reconciler.errors import Barred, ReconcilerError, Refused, Silent, Unreachable
from reconciler.planning.nodes.root_commands import RootCommand, RootCommands
from reconciler.remote.bootstrap import profile, survey
from reconciler.remote.bootstrap.actions import Action, Build, Run, Write
from reconciler.remote.bootstrap.profile import MARK, Profile
from reconciler.remote.bootstrap.service import script
from reconciler.remote.commands import Completed
from reconciler.remote.nodes import bootstrap, gateway, introduction, node_over_ssh, scripts
from reconciler.remote.nodes.gateway import GatewayFiles, NodeGateway
from reconciler.remote.nodes.local import ANOTHER_SERVES, FENCED
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.nodes.pool import MachinePool
from reconciler.remote.runtime import build, managed, wheelhouse
from reconciler.remote.runtime.agent_file import Bundle
from reconciler.remote.runtime.pinned_versions import PLATFORMS, Recipe
from reconciler.remote.runtime.wheelhouse import Pack
from reconciler.remote.ssh import jumps
from reconciler.remote.ssh.channels import TooLong
from reconciler.remote.ssh.jumps import JumpChain
from reconciler.remote.ssh.login_shell import ShellFailed
from reconciler.resources import Access, SshAccess
from reconciler.service_managers.definitions import Keeper
from reconciler.wire.generation import Jump
from tests.recorded import compare
from tests.remote.test_recorded_connections import KEY, RECORDED, name

GATEWAY = "ssh-ed25519 AAAAgateway"
FOUND = Profile(PurePosixPath("/home/ada"), "Linux", "arm64", "ada", 501, "far", "/usr/bin/python3")
KIND = Recipe(replace(PLATFORMS[0], name="Linux/arm64"), "3.11.1", ("a==1", "b==2"), "engine", ("json",))
MIB = 2**20


async def outcome(doing: Any) -> str:
    """The result of an operation, or its failure."""
    try:
        found = await doing
    except ReconcilerError as error:
        return f"{type(error).__name__} {getattr(error, 'code', '')} {name(str(error))}"
    return f"{type(found).__name__} {name(found)}"


class Told(SshNode):
    """A node whose machine answers each command as a test says."""

    def __init__(self, rng: random.Random, access: Access, wheels: Any) -> None:
        super().__init__(
            "far", access, Bundle("agent-1.pyz", b"agent", wheels), asyncio.Semaphore(1), Path("/k/gateway")
        )
        self._managed = replace(self._managed, builder="x")
        self.calls: list[tuple[Any, ...]] = []
        self.rng = rng
        self.system = rng.choice(("Linux", "Darwin"))
        self.python = rng.choice(("/usr/bin/python3", "/usr/bin/python3", ""))
        self.newest = rng.choice(
            (
                "",
                "/home/ada/.reconciler/runtimes/old/bin/python3",
                f"/home/ada/.reconciler/runtimes/{KIND.key}/bin/python3",
            )
        )
        self.tools = rng.choice(("", "/opt/tools"))
        self.there, self.runs = rng.random() < 0.6, rng.random() < 0.9
        self.keeper = rng.choice(tuple(Keeper))
        self.loaded, self.administrator = rng.random() < 0.6, rng.choice(("", "sudo", "root"))
        self.asked_status, self.started_status = (
            rng.choice((0, 0, 0, FENCED, 1)),
            rng.choice((0, 0, FENCED, ANOTHER_SERVES, 9)),
        )
        self.put_status, self.other_status = rng.choice((0, 0, 0, 0, 1)), rng.choice((0, 0, 1, 143))
        self.keys = rng.choice(("", f"x {GATEWAY} y\n", "ssh-rsa BBBB\n"))
        self.streams, self.good_script = rng.random() < 0.5, rng.random() < 0.5
        self.written = rng.choice((("", ""), ("out\n", ""), ("out\n", " err\n")))
        self.chain: Any = "chain"
        self.connection: Any = SimpleNamespace(is_closed=lambda: rng.random() < 0.5)
        held: Any = SimpleNamespace(
            get=self.got, keep=self.kept, renew=self.kept, close=self.kept, jump_chain="chain"
        )
        self._connection = held

    async def got(self) -> Any:
        return self.connection

    async def kept(self) -> None:
        self.calls.append(("kept",))

    async def run(self, argv: Any, *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109 - as SshNode.run
        self.calls.append((tuple(argv), stdin, timeout))
        out, status = self._answer(list(argv))
        return Completed(status, out or self.written[0], self.written[1]) if status else Completed(0, out, "")

    def _answer(self, argv: list[str]) -> tuple[str, int]:
        if profile._SCRIPT in argv:
            facts = {
                "home": "/home/ada",
                "system": self.system,
                "machine": "arm64",
                "user": "ada",
                "uid": 501,
                "hostname": "far",
                "python": self.python,
                "tools": self.tools,
            }
            return "".join(f"{MARK} {word} {fact}\n" for word, fact in facts.items()), 0
        if managed._NEWEST in argv:
            return f"{self.newest}\n", 0
        if survey._SCRIPT in argv:
            return self._surveyed(), 0
        if scripts.AUTHORIZED in argv:
            return f"/home/ada/.ssh/authorized_keys\n{self.keys}", 0 if self.other_status != 143 else 3
        if argv[0] == "/bin/test":
            return "", int(not self.there)
        if "--help" in argv:
            return "", int(not self.runs)
        if "--ask" in argv:
            return "", self.asked_status
        if "--detach" in argv:
            return "", self.started_status
        if scripts.PUT in argv:
            return "", self.put_status
        if build._STATE in argv:
            return "built\n" if self.there else "free 99999999\n", 0
        return "", self.other_status

    def _surveyed(self) -> str:
        lines = [
            f"keeper {self.keeper.value}",
            f"rights {self.administrator}",
            *(["loaded yes"] if self.loaded else []),
        ]
        if self.good_script and self._profile is not None:
            path = self._profile.root / "agents" / "agent-1.pyz"
            lines += [
                f"script {line}"
                for line in script(
                    self.keeper, self._profile, "far", self._serve(self._profile, path)
                ).splitlines()
            ]
        return "".join(f"{MARK} {line}\n" for line in lines)

    async def stream(self, socket: str) -> Any:
        """A connection, if an agent serves there."""
        self.calls.append(("stream", socket))
        if not self.streams:
            raise Unreachable("nobody")
        return None, SimpleNamespace(close=lambda: self.calls.append(("closed",)))


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All that is told to jump hosts, with a clock that only sleeping moves."""
    told: list[Any] = []
    clock = [10.0]

    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    async def jump(chain: Any, key: Path) -> None:
        told.append((chain, str(key)))
        if len(told) % 3 == 0:
            raise Unreachable("no jump")

    parts = {
        **vars(asyncio),
        "sleep": sleep,
        "get_running_loop": lambda: SimpleNamespace(time=lambda: clock[0]),
    }
    for module in (node_over_ssh, bootstrap):
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(**parts))
    monkeypatch.setattr(node_over_ssh, "public_key", lambda path: GATEWAY)
    monkeypatch.setattr(
        node_over_ssh, "jumps", SimpleNamespace(authorize=jump, revoke=lambda chain, key: sleep(0.0))
    )
    return told


def access(python: str | None = None) -> Access:
    return Access(ssh=SshAccess(host="far", user="ada", hostKey=KEY), python=python)


class Wheels:
    """A source of runtimes."""

    def __init__(self, kinds: dict[str, Recipe]) -> None:
        self.recipes = kinds

    async def packs(self, recipe: Recipe, tell: Any) -> tuple[Pack, ...]:
        """No parts: nothing is sent."""
        tell(f"packs of {recipe.key}")
        return ()


async def test_every_command_for_a_node_over_ssh_is_as_recorded(
    there: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []
    for number in range(256):
        rng = random.Random(number)
        wheels = rng.choice((None, Wheels({}), Wheels({"Linux/arm64": KIND, "Darwin/arm64": KIND})))
        node = Told(rng, access(rng.choice((None, None, "/my/python"))), wheels)
        there.clear()

        async def hold(connection: Any, command: Any, node: Told = node) -> Any:
            node.calls.append(("hold", tuple(command)))
            if node.other_status == 143:
                raise OSError("no session")
            begun = asyncio.get_running_loop().create_future()
            begun.set_result(Completed(node.started_status, *node.written))
            return SimpleNamespace(begun=begun)

        monkeypatch.setattr(node_over_ssh, "hold", hold)
        said: list[str] = []
        does = (
            "start_agent",
            "start_agent",
            "start_agent",
            "stage",
            "stage",
            "place",
            "place",
            "withdraw",
            "disable_service",
            "reboot",
            "answers",
            "build_runtime",
            "prune_runtimes",
            "survey",
            "reconnect",
            "plan",
        )
        act = does[number % len(does)]
        if act == "plan":
            needed = rng.choice((None, RootCommands((RootCommand(("shutdown", "-r", "now"), "restarts"),))))
            install = rng.random() < 0.7
            result = await outcome(
                bootstrap.plan_bootstrap(node, needed) if install else bootstrap.plan_reset(node)
            )
        elif act in ("start_agent", "stage"):
            result = await outcome(getattr(node, act)(rng.choice((0, 7))))
        else:
            result = await outcome(getattr(node, act)(*([said.append] if act == "build_runtime" else [])))
        lines.append(
            f"{number} {act} {result} {len(node.calls)} {name((node.calls, there, said))} {node._profile is None:d}"
        )
    compare(RECORDED / "nodes-over-ssh.txt", lines)


async def test_errors_of_commands_have_their_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Told(random.Random(1), access(), None)
    failures: list[Exception] = [
        TimeoutError(), TimeoutError("late"), ShellFailed("is odd", "/bin/fish"), TooLong("9 bytes"), OSError("gone"),
        asyncssh.ConnectionLost("lost"), ConnectionResetError("reset"),
    ]  # fmt: skip
    kinds = [Silent, Silent, Barred, Refused, Silent, Silent, Silent]
    words = ["did not end within 5 s", "late", "/bin/fish is odd", "9 bytes", "gone", "lost", "reset"]
    for failure, kind, word in zip(failures, kinds, words, strict=True):

        async def fail(
            connection: Any, argv: Any, stdin: bytes, seconds: float, failure: Exception = failure
        ) -> Completed:
            assert (argv, stdin) == (("true",), b"in")
            assert 4 < seconds <= 5
            raise failure

        monkeypatch.setattr(node_over_ssh, "run", fail)
        with pytest.raises(ReconcilerError, match=word) as caught:
            await SshNode.run(node, ("true",), stdin=b"in", timeout=5)
        assert type(caught.value) is kind


async def test_errors_of_streams_have_their_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Told(random.Random(1), access(), None)
    for failure, closed, kind in (
        (TimeoutError(), False, Silent),
        (OSError("no"), True, Silent),
        (OSError("no"), False, Unreachable),
        (asyncssh.ChannelOpenError(1, "no"), False, Unreachable),
    ):

        async def fail(connection: Any, socket: str, failure: Exception = failure) -> Any:
            raise failure

        monkeypatch.setattr(node_over_ssh, "open_stream", fail)
        node.connection = SimpleNamespace(is_closed=lambda closed=closed: closed)
        with pytest.raises(Unreachable) as caught:
            await SshNode.stream(node, "/s")
        assert type(caught.value) is kind


# --- runtimes ---


async def test_errors_of_an_agents_session_have_their_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Told(random.Random(1), access(), None)
    for failure, kind, word in (
        (TimeoutError(), Unreachable, "does not serve after"),
        (OSError("gone"), Silent, "cannot open a session .*: gone"),
        (asyncssh.ChannelOpenError(1, "no"), Silent, "cannot open a session .*: no"),
        (asyncssh.ConnectionLost("lost"), Silent, "cannot open a session .*: lost"),
    ):

        async def fail(connection: Any, argv: Any, failure: Exception = failure) -> Any:
            raise failure

        monkeypatch.setattr(node_over_ssh, "hold", fail)
        with pytest.raises(ReconcilerError, match=word) as caught:
            await node._hold(("serve",))
        assert type(caught.value) is kind


class Shell:
    """A machine that answers the commands of a build, and fails at one of them."""

    def __init__(self, state: str, fails: str = "", newest: str = "") -> None:
        self.state, self.fails, self.newest = state, fails, newest
        self.calls: list[tuple[Any, ...]] = []

    async def run(self, argv: Any, *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109 - as SshNode.run
        self.calls.append((tuple(argv[3:]) if argv[0] == "/bin/sh" else tuple(argv), stdin, timeout))
        if self.fails and self.fails in argv:
            return Completed(3, "said\n", "")
        if build._STATE in argv:
            return Completed(0, self.state, "")
        if build._PRUNE in argv:
            return Completed(0, "removed a\nused b\nremoved c\n", "")
        return Completed(0, f" {self.newest}\n", "")


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Pack, ...]:
    """Parts of a runtime, sent ten bytes at a time."""
    monkeypatch.setattr(build, "PIECE_BYTES", 10)
    made = []
    for number, size in enumerate((25, 10, 0)):
        path = tmp_path / f"{number}"
        path.write_bytes(bytes(range(size)))
        made.append(
            Pack(f"p{number}", path, f"d{number}", size, (number + 1) * MIB, ("", "lib", "lib")[number])
        )
    return tuple(made)


async def test_every_command_of_a_build_is_as_recorded(packs: tuple[Pack, ...]) -> None:
    lines, rng = [], random.Random(3)
    need = 262 * MIB + 35
    for number in range(120):
        state = [rng.choice(("built",)) for _ in range(rng.random() < 0.1)]
        state += [
            f"free {rng.choice((need // 1024, need // 1024 + 1, 10**9))}" for _ in range(rng.random() < 0.8)
        ]
        for digest_of, most in (("d0", 26), ("d1", 11), ("d2", 1)):
            chance = rng.random()
            if chance < 0.3:
                state.append(f"complete {digest_of}")
            elif chance < 0.7:
                state.append(f"part {digest_of} {rng.choice((0, 5, 10, most - 1, most))}")
        fails = rng.choice(
            (
                "",
                "",
                "",
                build._STATE,
                build._PIECE,
                build._COMPLETE,
                build._UNPACK,
                build._PUBLISH,
                build._TRY,
            )
        )
        shell, said = Shell("\n".join(state), fails), []  # type: ignore[var-annotated]
        making = build.Build(shell, "far", PurePosixPath("/r"), said.append, rng.choice(("", "x")))
        result = await outcome(making.ensure(KIND, packs))
        lines.append(f"{number} {name(state)} {result} {len(shell.calls)} {name(shell.calls)} {name(said)}")
    shell = Shell("x built\n")
    making = build.Build(shell, "far", PurePosixPath("/r"), print)
    assert (await making.built(KIND), shell.calls[0][0][2:]) == (False, (KIND.key,))
    pruned = await making.prune(KIND)
    assert (pruned.removed, pruned.used) == (("a", "c"), ("b",))
    assert await build.Build(Shell("a\nbuilt\n"), "far", PurePosixPath("/r"), print).built(KIND)
    failed = (Completed(3, "", ""), Completed(3, "a\nb\n", ""), Completed(3, "a", "c\nd" + "x" * 700))
    lines += [name(build._last_line(done)) for done in failed]
    compare(RECORDED / "builds.txt", lines)


async def test_a_managed_runtime_is_the_machines_own(packs: tuple[Pack, ...]) -> None:
    lines = []
    sources: tuple[Any, ...] = (None, Wheels({}), Wheels({"Linux/arm64": KIND}))
    key = str(build.python_of(FOUND.root, KIND.key))
    for at, source in enumerate(sources):
        for python in (None, "/my/python"):
            for state in ("built\n", ""):
                shell, said = Shell(state, newest="/n"), []  # type: ignore[var-annotated]
                found = managed.Managed(shell, "far", source, python, "x")
                results = [
                    await outcome(found.build(FOUND, said.append)),
                    await outcome(found.prune(FOUND)),
                    await outcome(found.newest(FOUND)),
                ]
                lacking = [
                    found.lacking(FOUND),
                    found.lacking(replace(FOUND, ranks_python=key)),
                    found.lacking(replace(FOUND, ranks_python="/o")),
                ]
                lines.append(
                    f"{at} {python} {state!r} {results} {lacking} {len(shell.calls)} {name((shell.calls, said))}"
                )
    compare(RECORDED / "managed-runtimes.txt", lines)


def test_the_parts_of_the_newest_recipes_are_kept(tmp_path: Path) -> None:
    house = wheelhouse.Wheelhouse(tmp_path, {})
    lines = []
    for number in range(5):
        kind = replace(KIND, engine=f"e{number}", platform=replace(PLATFORMS[number % 2], environment={}))
        path = tmp_path / f"part{number}.1.d{number}.tar.gz"
        path.write_bytes(b"x")
        shared = tmp_path / "shared.1.d.tar.gz"
        shared.write_bytes(b"y")
        known = [Pack("p", each, "d", 1, 1, "") for each in (path, shared)]
        house._keep(kind, known)
        for each in tmp_path.glob(f"*.{kind.key}.parts"):
            os.utime(each, (number, number))
        lines.append(sorted(each.name for each in tmp_path.glob("*.tar.gz")))
    assert lines[-1] == [*(f"part{number}.1.d{number}.tar.gz" for number in range(1, 5)), "shared.1.d.tar.gz"]
    assert len(list(tmp_path.glob("*.parts"))) == 4


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    digests = []
    for number in range(2):
        tree = tmp_path / str(number)
        (tree / "a").mkdir(parents=True)
        (tree / "a" / "b").write_bytes(b"12345")
        (tree / "c").symlink_to("a/b")
        (tree / "d").write_bytes(b"6")
        for at, each in enumerate((tree / "a" / "b", tree / "d")):
            os.utime(each, (number * 50 + at, number * 50))
        made = wheelhouse._archive(tree, tmp_path / f"draft{number}", tmp_path / f"part{number}")
        digests.append(made.name.split(".")[1:3])
        with tarfile.open(made) as archive:
            found = [(each.name, each.size, each.mtime, each.uid, each.gname) for each in archive]
        assert found == [("a", 0, 0, 0, ""), ("a/b", 5, 0, 0, ""), ("c", 0, 0, 0, ""), ("d", 1, 0, 0, "")]
    assert digests[0] == digests[1]
    assert digests[0][0] == "6"


# --- gateways, jump hosts and first contacts ---


class Remote:
    """A machine for a gateway."""

    def __init__(self, out: str, err: str = "") -> None:
        self.out, self.err = out, err
        self.calls: list[Any] = []

    async def run(self, argv: Any, *, stdin: bytes = b"", timeout: float) -> Completed:  # noqa: ASYNC109 - as SshNode.run
        self.calls.append((tuple(argv[3:]), timeout))
        return Completed(0, self.out, self.err)

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None:
        self.calls.append((str(path), content, mode))

    async def profile(self) -> Profile:
        return FOUND


LOOKS = (
    "",
    '7 S python -I /home/ada/.reconciler/agents/gateway-1.pyz /home/ada/.reconciler/front\nab  routes.json\n\n{"pid": 7}\n',
    "8 T /usr/bin/python3 -I gateway-2.pyz /home/ada/.reconciler/front\nab  routes.json\nef  keys/old\n\n\nlast words\n",
    "\n\n[1]\nlast words\n",
    "\ncd  keys/a\n\n{\n" + "x" * 400 + "\n",
    "welcome\n\n",
)
"""What looks at a gateway print."""


async def test_a_gateway_elsewhere_gets_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gateway, "gateway_file", lambda: SimpleNamespace(name="gateway-1.pyz", content=b"file")
    )
    lines, rng, machine = [], random.Random(8), Remote("")
    kept = NodeGateway(machine, "far")
    for number in range(60):
        machine.calls.clear()
        machine.out, machine.err = rng.choice(LOOKS), rng.choice(("", "err\n"))
        keys = {key: rng.choice((b"1", b"2")) for key in "ab" if rng.random() < 0.7}
        results = [await outcome(kept.look())] if rng.random() < 0.7 else []
        results.append(await outcome(kept.send(GatewayFiles(rng.choice((b"r", b"s")), keys))))
        if rng.random() < 0.3:
            machine.out = rng.choice(("", "missing\n"))
            results.append(await outcome(kept.start()))
        if rng.random() < 0.15:
            results += [await outcome(kept.remove_files()), await outcome(kept.signal("TERM", "CONT"))]
        lines.append(f"{number} {'; '.join(results)} {len(machine.calls)} {name(machine.calls)}")
    compare(RECORDED / "gateways.txt", lines)


async def test_jump_hosts_let_the_gateway_to_the_next_one_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jumps, "public_key", lambda path: GATEWAY)
    lines = []
    for number in range(80):
        rng, calls = random.Random(number), []  # type: ignore[var-annotated]

        async def run(
            connection: Any,
            argv: Any,
            stdin: bytes,
            seconds: float,
            rng: random.Random = rng,
            calls: list[Any] = calls,
        ) -> Completed:
            calls.append((connection, argv[2:], stdin, seconds))
            failure = rng.choice(
                (None,) * 12 + (OSError("gone"), ShellFailed("odd"), asyncssh.ConnectionLost(""))
            )
            if failure is not None:
                raise failure
            status = rng.choice((0, 0, 0, 0, 0, 1))
            if argv[2] == jumps._SPLICER:
                return Completed(status, rng.choice(("/bin/nc\n/p\n", "/usr/bin/python3\n", "")), "")
            return Completed(
                status, rng.choice(("", f"x {GATEWAY} y\n", "ssh-rsa BBBB\n")), rng.choice(("", "err"))
            )

        monkeypatch.setattr(jumps, "run", run)
        hosts = tuple(Jump(f"jump{at}", 22 + at, "ada", KEY) for at in range(rng.randrange(3)))
        connections: Any = tuple(f"connection{at}" for at in range(len(hosts)))
        chain = JumpChain(hosts, connections, "far", 2222)
        caplog.clear()
        act = rng.choice((jumps.authorize, jumps.revoke))
        result = await outcome(act(chain, Path("/k")))
        lines.append(f"{number} {act.__name__} {result} {len(calls)} {name(calls)} {name(caplog.messages)}")
    compare(RECORDED / "jump-hosts.txt", lines)


async def test_first_contacts_are_told_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, rng = [], random.Random(9)
    given: list[Completed] = []

    async def run(to: SshAccess, argv: Any, seconds: float) -> Completed:
        assert argv[:2] == ("/bin/sh", "-c")
        return given[-1]

    monkeypatch.setattr(introduction, "_run", run)
    to = SshAccess(host="far", user="ada", hostKey=KEY)
    for _ in range(60):
        words = {
            "name": "far",
            "chip": "Apple M3  Ultra",
            "bytes": rng.choice(("17179869184", "x", "")),
            "system": "macOS 26.2",
        }
        text = "".join(
            f"{rng.choice((MARK, MARK, MARK, 'x'))} {word} {fact}\n"
            for word, fact in words.items()
            if rng.random() < 0.8
        )
        given.append(
            Completed(rng.choice((0, 0, 3)), text, rng.choice(("", "examine-mac.sh: no\n", "e" * 600)))
        )
        lines.append(
            f"{await outcome(introduction.survey(to))} {await outcome(introduction.examine(to, 's', (), 1.0))}"
        )
    unreached = OSError(errno.EHOSTUNREACH, "no route")
    for failure, reached in (
        (unreached, True),
        (unreached, False),
        (OSError("x"), True),
        (TimeoutError(), True),
        (asyncssh.Error(1, "e"), True),
        (None, True),
    ):

        async def key(host: str, port: Any, failure: Exception | None = failure, **options: Any) -> None:
            assert port in ((), 22)
            if failure is not None:
                raise failure

        async def reaches(host: str, port: Any, reached: bool = reached) -> bool:
            return reached

        monkeypatch.setattr(asyncssh, "get_server_host_key", key)
        monkeypatch.setattr("reconciler.remote.ssh.obstacles.ssh_reaches", reaches)
        for port in (None, 22):
            with pytest.raises(Silent) as caught:
                await introduction.host_key("far", port)
            lines.append(
                f"{type(caught.value).__name__} {name(str(caught.value).replace(str(errno.EHOSTUNREACH), 'N'))}"
            )
    compare(RECORDED / "first-contacts.txt", lines)


async def test_a_host_key_is_shown_as_in_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    made = asyncssh.generate_private_key("ssh-ed25519", comment="far").convert_to_public()

    async def key(host: str, port: Any, **options: Any) -> Any:
        assert options["server_host_key_algs"][0] == "ssh-ed25519"
        return made

    monkeypatch.setattr(asyncssh, "get_server_host_key", key)
    found = await introduction.host_key("far", None)
    assert found.line == " ".join(made.export_public_key().decode().split()[:2])
    assert (
        found.fingerprint == introduction.fingerprint_of(found.line) == f"{made.get_fingerprint()} (ED25519)"
    )
    with pytest.raises(Unreachable, match="invalid"):
        introduction.fingerprint_of("ssh-ed25519 x")


async def test_actions_elsewhere_are_carried_out_or_refused() -> None:
    node = Told(random.Random(1), access(), None)
    node.put_status, node.written = 0, ("o\n", "e\n")
    await bootstrap.carry_out(node, Action("w", Write(PurePosixPath("/f"), b"text", 0o640)))
    assert node.calls[-1][0][4:] == ("/f", "640", "4")
    for status, written, words in (
        (0, ("", ""), ""),
        (1, ("o\n", "e\n"), "e"),
        (1, ("o\n", ""), "o"),
        (1, ("", ""), "exit status 1"),
    ):
        node.other_status, node.written = status, written
        action = Action("w", Run(("tee", "f")))
        if status:
            with pytest.raises(Refused, match=rf"on far: w: {words}$"):
                await bootstrap.carry_out(node, action)
        else:
            await bootstrap.carry_out(node, action)
    assert node.calls[-1] == (("tee", "f"), b"", bootstrap.MEASURE_SECONDS)
    with pytest.raises(Refused, match="not managed"):
        await bootstrap.carry_out(node, Action("w", Build(PurePosixPath("/r"))))


@pytest.mark.parametrize("looks", [0, 1, 5, 10**6])
async def test_a_service_is_waited_for_as_long_as_its_bound(looks: int, there: list[Any]) -> None:
    seen = [
        survey.Survey(Keeper.SYSTEMD, loaded=True, agent=pid, pid=pid + other)
        for pid, other in ((0, 0), (7, 1))
    ]
    number = 0

    async def look() -> survey.Survey:
        nonlocal number
        number += 1
        return (
            seen[number % 2]
            if number <= looks
            else survey.Survey(Keeper.SYSTEMD, loaded=True, agent=7, pid=7)
        )

    node: Any = SimpleNamespace(survey=look)
    await bootstrap.settle(node)
    most = int(bootstrap.SETTLE_SECONDS / bootstrap.LOOK_SECONDS) + 1
    assert number in ({looks + 1} if looks < most else {most, most + 1})


@pytest.mark.parametrize("given", [{"keeper": Keeper.NOTHING, "loaded": True}, {"keeper": Keeper.LAUNCHD}])
async def test_an_agent_without_a_service_is_not_waited_for(given: dict[str, Any], there: list[Any]) -> None:
    looks = []

    async def look() -> survey.Survey:
        looks.append(1)
        return survey.Survey(**given)

    node: Any = SimpleNamespace(survey=look)
    await bootstrap.settle(node)
    assert len(looks) == 1


# --- the pool ---


class Pooled:
    """A machine of a pool, which notes what it is to do."""

    def __init__(self, told: list[str], number: int) -> None:
        self.told, self.number = told, number

    def __getattr__(self, act: str) -> Any:
        if act in ("run", "put", "profile"):
            raise AttributeError(act)

        async def do(*given: Any) -> Any:
            self.told.append(f"{self.number}.{act}{given}")
            return Link(self.told) if act == "dial" else act

        return do


class Reached(Pooled):
    """One over SSH, which can have a gateway."""

    async def run(self, argv: Any, **given: Any) -> Completed:
        return Completed(0, "", "")

    async def put(self, path: PurePosixPath, content: bytes, mode: int) -> None:
        """Take nothing."""

    async def profile(self) -> Profile:
        return FOUND


class Link:
    """A connection to an agent."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    async def close(self) -> None:
        self.told.append("link closed")


async def test_every_act_of_a_pool_is_as_recorded() -> None:
    lines, rng = [], random.Random(14)
    for number in range(18):
        told, links = [], []  # type: ignore[var-annotated]
        made = iter(range(100))

        def make(node: str, to: Access, told: list[str] = told, made: Any = made) -> Any:
            if to.python == "/bad":
                raise ValueError("no key")
            told.append(f"make {node} {to.python}")
            number = next(made)
            return (Pooled if number % 2 else Reached)(told, number)

        pool = MachinePool(make)
        for _ in range(10):
            told.clear()
            node: Any = rng.choice("abc")
            act = rng.choice(
                (
                    "reach",
                    "reach",
                    "dial",
                    "stage",
                    "start_agent",
                    "answers",
                    "reboot",
                    "withdraw",
                    "reconnect",
                    "build_runtime",
                    "prune_runtimes",
                    "stream",
                    "gateway",
                    "close",
                )
            )
            if act == "reach":
                hosts = {
                    each: Access(
                        ssh=SshAccess(
                            host=each,
                            user=rng.choice(("u", "v")),
                            hostKey=rng.choice((KEY, KEY[:-4] + "AAAA")),
                        ),
                        python=rng.choice((None, "/p", "/bad")),
                    )
                    for each in "abc"
                    if rng.random() < 0.8
                }
                pool.reach(hosts)  # type: ignore[arg-type]
                await asyncio.sleep(0)
                result = f"{len(pool._leaving)}"
                await asyncio.gather(*pool._leaving)
            elif act == "gateway":
                try:
                    result = f"{pool.gateway(node) is pool.gateway(node)}"
                except ReconcilerError as error:
                    result = f"{type(error).__name__}"
            elif act == "close":
                result = await outcome(pool.close())
            else:
                given = {"stage": (1,), "start_agent": (2,), "stream": ("/s",), "build_runtime": (None,)}.get(
                    act, ()
                )
                try:
                    found = await getattr(pool, act)(node, *given)
                    links.append(found)
                    result = type(found).__name__
                except ReconcilerError as error:
                    result = f"{type(error).__name__}"
            lines.append(f"{number} {act} {node} {result} {name(told)} {len(told)}")
    compare(RECORDED / "pools.txt", lines)


async def test_each_part_of_a_runtime_is_got_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def uv(recipe: Recipe, words: Any, what: str) -> None:
        shown = [str(word).replace(str(tmp_path), "HOUSE") for word in words]
        asked.append((what, shown[:2], [word for word in shown if word.startswith("-")], shown[-1]))
        place = Path(words[words.index("--install-dir" if words[0] == "python" else "--target") + 1])
        if words[0] == "python":
            for folder in ("cpython-full", ".cache"):
                (place / folder / "bin").mkdir(parents=True)
            (place / "link").symlink_to("cpython-full")
            (place / "cpython-full" / "bin" / "python3").write_text("python")
        else:
            (place / "module.py").write_text(words[-1])

    monkeypatch.setattr(wheelhouse, "_uv", uv)
    monkeypatch.setattr(
        wheelhouse, "engine_files", lambda: {"reconciler/a.py": b"a", "reconciler/b/c.py": b"c"}
    )
    house, said = wheelhouse.Wheelhouse(tmp_path / "house", {}), []  # type: ignore[var-annotated]
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / ".making-old").mkdir()
    found = await house.packs(KIND, said.append)
    shown = [(each.name, each.unpacked, each.folder, each.size == each.path.stat().st_size) for each in found]
    again = await house.packs(KIND, said.append)
    assert again == found
    lines = [
        *map(str, shown),
        *map(str, asked),
        *said,
        " ".join(sorted(each.name.partition(".")[0] for each in (tmp_path / "house").iterdir())),
    ]
    for each in found:
        with tarfile.open(each.path) as archive:
            lines.append(f"{each.name} {' '.join(archive.getnames())}")
    compare(RECORDED / "wheelhouse.txt", lines)
