"""The scripts, actions and notes for many machines, compared with those that were recorded before."""

from __future__ import annotations

import errno
import random
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.errors import Invalid, ReconcilerError, Refused, Unreachable
from reconciler.planning.nodes.root_commands import LINK_LOCAL_WORD, RootCommand, RootCommands
from reconciler.remote import gateway_key
from reconciler.remote.bootstrap import actions, profile, rights, service, survey
from reconciler.remote.bootstrap.actions import Action, Place, Run, Write
from reconciler.remote.bootstrap.profile import MARK, Profile
from reconciler.remote.bootstrap.survey import Survey
from reconciler.remote.commands import Completed
from reconciler.remote.ssh import last_addresses, login_shell, obstacles
from reconciler.resources import SshAccess
from reconciler.service_managers import definitions
from reconciler.service_managers.definitions import Keeper
from reconciler.services import machine, versions
from reconciler.services.up_service import Machine, UpService
from tests.recorded import compare, digest

RECORDED = Path(__file__).parent / "recorded"
HOME = PurePosixPath("/home/ada")
USERS = ("ada", "ada lovelace", "DOMAIN\\ada", "root")
TOOLS = {tool: f"/opt/{tool}" for tool in ("sudo", "install", "rm", "launchctl", "systemctl")}
COMMANDS = RootCommands(
    (
        RootCommand(("pmset", "-a", "sleep", "0", "disksleep", "0"), "sleep"),
        RootCommand(("ifconfig", "en3", "inet", LINK_LOCAL_WORD, "delete"), "addresses"),
        RootCommand(("shutdown", "-r", "now"), "restarts"),
    ),
    ("the fabric is unknown",),
)


def machine_of(user: str = "ada", system: str = "Linux", **given: Any) -> Profile:
    """One machine, as its user sees it."""
    of = {
        "machine": "arm64",
        "uid": 501,
        "hostname": "far",
        "python": "/usr/bin/python3",
        "login_shell": "/bin/sh",
    }
    return Profile(home=HOME, system=system, user=user, **{**of, **given})


def shown(action: Action) -> tuple[Any, ...]:
    """All of an action."""
    mode = action.act.mode if isinstance(action.act, Write) else None
    return action.why, str(action.act), action.act, mode, action.by_person


def short(found: Any) -> str:
    """The actions: how many, which of them are a person's, and what they are."""
    marks = "".join("-p"[each.by_person] for each in found)
    return f"{marks or '.'} {digest(repr([shown(each) for each in found]), 6)}"


def surveys(rng: random.Random, found: Profile, serve: tuple[str, ...]) -> Survey:
    """A service that may be there, good or outdated."""
    keeper = rng.choice(tuple(Keeper))
    good = service.definition(keeper, found, "far")
    facts = {
        "macos": rng.choice(("26.2", "26.1", "27", "15.6.1", "")),
        "rdma": rng.choice(("enabled", "disabled", "")),
        "filevault": rng.choice(("FileVault is On.", "FileVault is Off.", "")),
        "sleep": rng.choice(("0", "1", "")),
        "autorestart": rng.choice(("0", "1", "")),
    }
    return Survey(
        keeper=keeper,
        tools=rng.choice((TOOLS, {})),
        administrator=rng.choice(("", "", "sudo", "root")),
        definition=rng.choice((good, good, "old", None)),
        draft=rng.choice((good, "old", None)),
        loaded=rng.random() < 0.5,
        pid=rng.choice((0, 7)),
        script=rng.choice((service.script(keeper, found, "far", serve), "old", None)),
        agent=rng.choice((0, 7, 8)),
        mac_facts={name: fact for name, fact in facts.items() if fact},
    )


def test_every_action_on_a_machine_is_as_recorded() -> None:
    lines, rng = [], random.Random(1)
    for _ in range(200):
        found = machine_of(
            rng.choice(USERS),
            rng.choice(("Linux", "Darwin")),
            login_shell=rng.choice(("/bin/zsh", "/bin/fish")),
        )
        serve = ("/usr/bin/python3", "-I", "/a/agent b.pyz", "serve")
        seen = surveys(rng, found, serve)
        place = Place(
            node="far",
            found=found,
            runtime=rng.choice((None, PurePosixPath("/r/k"))),
            serve=serve,
            agent=Write(PurePosixPath("/a/agent b.pyz"), b"agent"),
            agent_there=rng.random() < 0.5,
            authorized=Write(PurePosixPath("/k"), b"keys", shown="line"),
            admitted=rng.random() < 0.5,
        )
        done, undone = actions.actions(seen, place), actions.undo_actions(found, seen, "far")
        allowed = rng.choice((None, rights.answer(COMMANDS, _granted(rng))))
        noted = [(each.text, each.command) for each in actions.notes(found, seen, "far", allowed)]
        begun = short([actions.start(found, seen, "far")])
        lines.append(f"{short(done)} {short(undone)} {begun} {len(noted)} {digest(noted)}")
    compare(RECORDED / "actions.txt", lines)


def _granted(rng: random.Random) -> str:
    return "".join(
        f"{MARK} allows {number}\n" for number in range(9) if rng.random() < rng.choice((0.1, 0.5, 0.9))
    )


def test_rights_of_sudo_are_read_as_recorded() -> None:
    lines, rng = [digest(rights.question(COMMANDS), 16)], random.Random(2)
    for _ in range(40):
        text = _granted(rng) + rng.choice(("", f"{MARK} allows x\n", f"{MARK} denies 1\n", "noise\n"))
        needed = rng.choice((COMMANDS, replace(COMMANDS, unknown=()), RootCommands(())))
        found, user = rights.answer(needed, text), rng.choice(USERS)
        said = [*rights.texts(user, found)]
        lines.append(
            f"{len(found.refused)} {len(found.excess)} {len(rights.lines(user, found))} {digest((found, said), 6)}"
        )
    compare(RECORDED / "rights.txt", lines)


def test_answers_about_machines_are_read_as_recorded() -> None:
    words = {
        "home": ("/home/ada", ""), "system": ("Linux", "Darwin"), "machine": ("arm64",), "user": ("ada b",),
        "uid": ("501", "x"), "hostname": ("far",), "python": ("/p",), "shell": ("/bin/sh",), "tools": ("/t",),
        "keeper": ("launchd", "systemd", "systemd of the user", "nothing", "cron"), "rights": ("sudo", ""),
        "loaded": ("yes",), "pid": ("7", "", "-"), "agent": ("8",), "definition": ("a", ""), "draft": ("b",),
        "script": ("c  d",), "tool-rm": ("/rm",), "macos": ("26.2", ""), "sleep": ("0",), "odd": ("e",),
    }  # fmt: skip
    lines, rng = [], random.Random(3)
    for _ in range(120):
        kept = [word for word in words if rng.random() < rng.choice((0.8, 0.99))]
        text = "".join(
            f"{rng.choice((MARK,) * 40 + ('other',))} {word} {rng.choice(words[word])}\n" for word in kept * 2
        )
        answers: list[object] = []
        for read in (profile.answer, survey.answer):
            try:
                answers.append(read(text))
            except Unreachable as error:
                answers.append(str(error))
        lines.append(
            f"{digest(text)} {' '.join(f'{type(each).__name__} {digest(repr(each), 6)}' for each in answers)}"
        )
    for keeper, system, named, coming in product(
        Keeper, ("Linux", "Darwin"), (None, "/my/python"), (False, True)
    ):
        found = machine_of(system=system)
        text = profile.none(found, "far", named, coming)
        asked = (profile.question(named), survey.question(found, "far"), found.kind, found.root)
        paths = (
            definitions.definition_path(keeper, found.home, service.service_name(found.user, "far")),
            service.words_path(found, "far"),
        )
        lines.append(f"{digest(text)} {digest(repr((asked, paths)), 6)}")
    compare(RECORDED / "answers.txt", lines)


def test_services_of_agents_and_of_up_are_as_recorded() -> None:
    lines = []
    for keeper, user, node in product(Keeper, USERS, ("far", "a.b-c")):
        found = machine_of(user, home_of(keeper))
        texts = (
            service.service_name(user, node),
            service.script(keeper, found, node, ("/usr/bin/python3", "a b", "it's")),
            service.definition(keeper, found, node),
        )
        lines.append(f"{keeper.name} {user!r} {node} {digest(texts, 6)}")
    for path in ("/a b", "/100%", '/a"b', "/a\\b", "/$HOME"):
        lines.append(
            f"{path} {digest((definitions.unit('100% of it', 'ada', path), definitions.unit('it', '', path, 3)), 6)}"
        )
        lines.append(f"{path} {digest(definitions.plist('label', 'ada', path), 6)}")
    for keeper, administrator, home in product(
        (Keeper.LAUNCHD, Keeper.SYSTEMD, Keeper.SYSTEMD_OF_USER),
        ("", "sudo", "root"),
        ("/home/ada/.reconciler", "/o b"),
    ):
        up = UpService(Path(home), Machine("ada", 501, HOME, keeper, administrator))
        lines.append(f"{up.name} {up.definition} {digest((up.script_text(), up.definition_text()), 6)}")
        for script, definition in product(
            (None, "old", up.script_text()), (None, "old", up.definition_text())
        ):
            for loaded in (False, True):
                done = [short(up.install_actions(script, definition, running, loaded)) for running in (0, 9)]
                undone = up.remove_actions(definition)
                lines.append(f" {loaded} {' '.join(done)} {digest(repr(undone), 4)}")
    compare(RECORDED / "services.txt", lines)


def home_of(keeper: Keeper) -> str:
    """The system that has such a service manager."""
    return "Darwin" if keeper is Keeper.LAUNCHD else "Linux"


def test_lines_of_authorized_keys_are_as_recorded() -> None:
    key, other = "ssh-ed25519 AAAAkey", "ssh-ed25519 AAAAother"
    line = gateway_key.relay_line("/p y", "/a.pyz", '/r"un', key)
    texts = (
        line, gateway_key.authorized_line(("nc", "h", "22"), other), f"# {key}", f"  # {line}", f"{key} me", "", "", "from=x " + key,
        f"ssh-ed25519 AAAAkey2 {line[:9]}",
    )  # fmt: skip
    lines, rng = [line], random.Random(4)
    for _ in range(80):
        existing = "\n".join(rng.choices(texts, k=rng.randrange(6))) + rng.choice(("", "\n", "\n\n"))
        ensured, without = gateway_key.ensure_line(existing, line), gateway_key.without_key(existing, key)
        assert gateway_key.ensure_line(ensured, line) == ensured
        lines.append(
            f"{digest(existing)} {ensured == existing:d} {digest(ensured)} {without == existing:d} {digest(without)}"
        )
    for odd in ("\n", "\r", "\0", "\\"):
        with pytest.raises(ValueError, match="cannot contain"):
            gateway_key.relay_line("/p", f"/a{odd}", "/r", key)
    compare(RECORDED / "authorized-keys.txt", lines)


def test_a_command_travels_as_one_word_and_its_output_begins_at_its_mark() -> None:
    lines, rng = [login_shell.command_line(("a b", "'", "\n"))], random.Random(5)
    for mark in (login_shell.OUT_MARK, login_shell.ERR_MARK):
        for _ in range(40):
            noise = rng.choice((b"", b"motd\n", b"x" * 1500, b"\n" * 3, mark))
            text = (
                noise
                + rng.choice((b"\n", b""))
                + mark
                + b"/bin/sh"
                + rng.choice((b"\n", b""))
                + b"own " * rng.randrange(3)
            )
            output, fed = login_shell.Output(mark), 0
            while fed < len(text):
                size = rng.choice((1, 7, 400))
                output.feed(text[fed : fed + size])
                fed += size
            lines.append(
                f"{digest(text)} {output.begun:d} {len(output.data)} {digest(bytes(output.data))} {output.rest_of_mark}"
            )
    lines += [str(login_shell.ShellFailed("printed nothing", shell)) for shell in ("", "/bin/fish")]
    compare(RECORDED / "login-shells.txt", lines)


def test_obstacles_are_told_as_recorded() -> None:
    every = ((), ("password",), ("publickey",), ("password", "publickey"), ("keyboard-interactive",))
    lines = [f"{methods} {obstacles.only_passwords(methods)}" for methods in every]
    for host, port, address, was_in in product(
        ("mini.local", "10.0.0.1"), (22, 2222), ("", "10.0.0.9"), (False, True)
    ):
        barred = obstacles.locked(SshAccess(host=host, user="ada", port=port, hostKey=KEY), address, was_in)
        lines.append(f"{digest((str(barred), barred.code), 6)} {barred.remedy}")
    unreached = errno.EHOSTUNREACH
    errors = (
        OSError(unreached, "x"),
        OSError(1, "x"),
        OSError(f"[Errno {unreached}] a, [Errno 5] b"),
        ValueError(f"[Errno {unreached}]"),
    )
    lines += [f"{obstacles.no_route(each)}" for each in errors]
    lines.append(str(obstacles.private("mini")))
    compare(RECORDED / "obstacles.txt", lines)


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGqFkW1GJbuU3nfpHS4tJgZKHfVkU3TLVdEp2GQ3dFdT"


async def test_ssh_is_asked_whether_it_reaches_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    answers: list[str | OSError] = []

    async def run(*words: str, timeout: float) -> Completed:  # noqa: ASYNC109 - as run_locally
        asked.append(words)
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return Completed(255, "", answer)

    monkeypatch.setattr(obstacles, "run_locally", run)
    lines = []
    each: tuple[str | OSError, ...] = (
        "ada@x: Permission denied (publickey).",
        "Host key verification failed.",
        "timed out",
        "",
        TimeoutError(),
        OSError("no ssh"),
    )
    for said, port, user in product(each, (None, 22), ("", "ada")):
        answers.append(said)
        lines.append(f"{await obstacles.ssh_reaches('mini', port, user)} {' '.join(asked[-1])}")
    compare(RECORDED / "ssh-reaches.txt", lines)


def test_the_newest_addresses_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_addresses, "MACHINES_MAX", 3)
    path = tmp_path / "addresses"
    kept = last_addresses.LastAddresses(path)
    for number in (1, 2, 3, 1, 4):
        kept.keep(f"ada@{number}", f"10.0.0.{number}")
    kept.keep("ada@2", "10.0.0.2")
    assert [kept.of(f"ada@{each}") for each in (1, 2, 3, 4, 5)] == [
        None,
        "10.0.0.2",
        "10.0.0.3",
        "10.0.0.4",
        None,
    ]
    kept.keep("ada@3", "")
    again = last_addresses.LastAddresses(path)
    assert [again.of(f"ada@{each}") for each in (2, 3, 4)] == ["10.0.0.2", "", "10.0.0.4"]
    assert ([each.name for each in tmp_path.iterdir()], path.stat().st_mode & 0o777) == (["addresses"], 0o600)
    for text in ("[1]", "{", '{"a": 1, "b": "c"}'):
        path.write_text(text)
        found = last_addresses.LastAddresses(path)
        assert (found.of("a"), found.of("b")) == (None, "c" if "b" in text else None)
    path.unlink()
    path.mkdir()
    unwritable = last_addresses.LastAddresses(path)
    unwritable.keep("ada@1", "10.0.0.1")
    assert unwritable.of("ada@1") == "10.0.0.1"
    in_memory = last_addresses.LastAddresses()
    in_memory.keep("a", "b")
    assert in_memory.of("a") == "b"


# --- this machine ---


def test_this_machine_has_the_keeper_that_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []
    real = Path
    for platform, of_user, system, own in product(
        ("darwin", "linux"), (False, True), (False, True), (False, True)
    ):
        root = tmp_path / f"{platform}{of_user:d}{system:d}{own:d}"
        for there, folder in ((system, "run/systemd/system"), (own, "run/user/501/systemd")):
            if there:
                (root / folder).mkdir(parents=True)
        with monkeypatch.context() as patch:
            patch.setattr("sys.platform", platform)
            patch.delenv("XDG_RUNTIME_DIR", raising=False)
            patch.setattr(
                machine, "Path", lambda *parts, root=root: real(root, *(part.lstrip("/") for part in parts))
            )
            patch.setattr("os.getuid", lambda: 501)
            try:
                lines.append(f"{platform} {of_user:d}{system:d}{own:d} {machine._keeper(of_user).name}")
            except Invalid as error:
                lines.append(f"{platform} {of_user:d}{system:d}{own:d} {error}")
    compare(RECORDED / "keepers.txt", lines)


@pytest.mark.parametrize(
    ("uid", "sudo", "status", "way"),
    [(0, None, 1, "root"), (5, None, 0, ""), (5, "/bin/sudo", 0, "sudo"), (5, "/bin/sudo", 1, "")],
)
def test_root_is_reached_in_one_way(
    uid: int, sudo: str | None, status: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(command: Any, **given: Any) -> Any:
        asked.append((command, given["check"], given["timeout"]))
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr("os.geteuid", lambda: uid)
    monkeypatch.setattr("shutil.which", lambda name: sudo)
    monkeypatch.setattr("subprocess.run", run)
    assert machine._administrator() == way
    assert asked == ([(("sudo", "-n", "true"), False, machine.SUDO_SECONDS)] if sudo and uid else [])


def test_a_user_of_sudo_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ada")
    with pytest.raises(Invalid, match="without sudo"):
        machine.this_machine(False)
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setattr(
        machine, "_keeper", lambda of_user: Keeper.SYSTEMD_OF_USER if of_user else Keeper.SYSTEMD
    )
    monkeypatch.setattr(machine, "_administrator", lambda: "sudo")
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    found = machine.this_machine(True)
    assert (found.user, found.keeper, found.administrator) == ("ada", Keeper.SYSTEMD_OF_USER, "sudo")


def test_actions_here_are_carried_out_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "b"
    machine.carry_out(Action("why", Write(PurePosixPath(path), b"text", 0o640)))
    assert (path.read_bytes(), path.stat().st_mode & 0o777, machine.content(path)) == (b"text", 0o640, "text")
    assert [each.name for each in path.parent.iterdir()] == ["b"]
    assert machine.content(tmp_path / "none") is None
    asked: list[Any] = []
    ended = [
        SimpleNamespace(returncode=0),
        *(
            SimpleNamespace(returncode=3, stdout=out, stderr=err)
            for out, err in (("o\n", "e\n"), (" o\n", ""), ("", ""))
        ),
    ]

    def run(argv: Any, **given: Any) -> Any:
        asked.append((argv, given["input"], given["check"], given["timeout"]))
        return ended.pop(0)

    monkeypatch.setattr("subprocess.run", run)
    action = Action("why", Run(("tee", "f"), "text"))
    machine.carry_out(action)
    for words in ("e", "o", "exit status 3"):
        with pytest.raises(Refused, match=f": {words}$"):
            machine.carry_out(action)
    assert asked == [(("tee", "f"), "text", False, machine.ACTION_SECONDS)] * 4


# --- versions ---


class Environments:
    """Environments that are made without an installer: the version and the contents are what a test says."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.versions = versions.Versions(root)
        self.version, self.content = "1.0", "a"
        self.calls: list[tuple[str, ...]] = []
        self.fails = ""
        self.running = ""
        monkeypatch.setattr(versions, "_output", self.output)
        monkeypatch.setattr(versions, "find_uv_bin", lambda: "uv")
        monkeypatch.setattr(versions, "_commands", lambda: self.running)

    def output(self, command: tuple[str, ...], seconds: float) -> str:
        """Do what uv, or the version's own Python, would."""
        draft = self.versions.root / ".making"
        self.calls.append(tuple(word.replace(str(self.versions.root), "ROOT") for word in command))
        if self.fails in command:
            raise Refused("VersionUnavailable", "no")
        if command[1] == "venv":
            (draft / "bin").mkdir(parents=True)
            (draft / "bin" / "python").touch()
        elif command[1] == "pip":
            info = draft / "lib" / "python3.11" / "site-packages" / f"mlx_reconciler-{self.version}.dist-info"
            info.mkdir(parents=True)
            record = (
                "reconciler/b.py,1",
                f"reconciler/a.py,{self.content}",
                f"reconciler/a.pyc,{len(self.calls)}",
                f"x/{len(self.calls)},2",
            )
            (info / "RECORD").write_text("\n".join(record))
        return f"{self.version}\n"

    def names(self) -> list[str]:
        return sorted(each.name for each in self.versions.root.iterdir())


def test_versions_are_made_used_and_dropped_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, rng = [], random.Random(6)
    for number in range(14):
        made = Environments(tmp_path / str(number), monkeypatch)
        for _ in range(8):
            made.version, made.content = rng.choice(("1.0", "1.1")), rng.choice("ab")
            made.fails = rng.choice(("nothing", "nothing", "nothing", "pip"))
            made.calls.clear()
            try:
                name = made.versions.make("mlx-reconciler", rng.choice((None, "https://i")))
            except Refused:
                name = "refused"
            made.running = "" if rng.random() < 0.5 else f"{made.versions.root}/{name}/bin/python x"
            if name != "refused" and rng.random() < 0.7:
                made.versions.use(name, rng.choice((made.versions.current, made.versions.current, None)))
            if rng.random() < 0.4:
                made.versions.drop_unused()
            called = [
                words[1:] if words[1] != "venv" else ("venv", *words[2:-2], words[-1]) for words in made.calls
            ]
            state = f"{made.versions.current} {made.versions.previous} {' '.join(made.names())}"
            lines.append(
                f"{number} {name} {digest([words[:9] for words in called if 'python' not in words[0]])} {state}"
            )
    compare(RECORDED / "versions.txt", lines)


def test_a_version_is_switched_while_its_process_lives(tmp_path: Path) -> None:
    found = versions.Versions(tmp_path)
    assert not found.being_switched
    with found.switching():
        assert found.being_switched
    assert not found.being_switched
    (tmp_path / versions.SWITCHING).write_text("x")
    assert not found.being_switched
    with pytest.raises(KeyError), found.switching():
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    assert [versions.number(each) for each in ("1.0", "1.0-abc", "1.0-a-b")] == ["1.0"] * 3


def test_commands_that_fail_are_refused_with_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[Any] = [
        SimpleNamespace(returncode=0, stdout=" out\n", stderr="e"),
        *(
            SimpleNamespace(returncode=1, stdout=out, stderr=err)
            for out, err in (("o\n", " e\n"), ("o\n", ""))
        ),
        OSError("no such file"),
        subprocess.TimeoutExpired("uv", 5),
    ]

    def run(command: Any, **given: Any) -> Any:
        assert (given["timeout"], given["check"]) == (5, False)
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr("subprocess.run", run)
    assert versions._output(("/bin/uv", "pip"), 5) == " out\n"
    for words in ("uv pip: e", "uv pip: o", "uv: no such file", "uv: Command 'uv' timed out"):
        with pytest.raises(ReconcilerError, match=words):
            versions._output(("/bin/uv", "pip"), 5)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(versions, "_output", lambda command, seconds: f"{' '.join(command)} {seconds}")
    assert versions._commands() == f"ps -A -ww -o args= {versions.LIST_SECONDS}"
