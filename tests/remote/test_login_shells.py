"""Commands on machines whose users have other login shells, with start-up files that people write."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import Barred, Silent
from reconciler.remote.nodes.node_over_ssh import SshNode
from reconciler.remote.runtime.agent_file import bundle_of, write_bundle
from reconciler.remote.ssh import channels
from reconciler.remote.ssh.login_shell import ERR_MARK, OUT_MARK, Output, command_line
from reconciler.resources import Access
from reconciler.wire.node import Shutdown
from tests.needs import find

from .server import Server, client_key, server, shell

pytestmark = pytest.mark.processes

SHELLS = {"bash": ".bashrc", "zsh": ".zshenv", "fish": ".config/fish/config.fish", "tcsh": ".tcshrc"}
"""Each with the start-up file that it reads when an SSH server has it run a command; a plain ``sh`` reads none."""
SETS = {"fish": "set -gx {} {}", "tcsh": "setenv {} {}"}
LONG = 200_000

PRINTS = {
    "a greeting": "echo Welcome",
    "text without a line's end": "printf 'Last login: never'",
    "to both outputs": "echo out; echo err | cat 1>&2",
    "200 kB": f"head -c {LONG} /dev/zero | tr '\\0' x",
    "200 kB of errors": f"sh -c 'head -c {LONG} /dev/zero | tr \"\\0\" x >&2'",
    "the marks themselves": "echo reconciler-out; echo reconciler-err",
    "control characters": "printf '\\033[2J\\007\\r'",
    "a failing command": "ls /nonexistent; false",
    "nothing": "true",
}
"""Lines that every shell understands."""
VARIABLES = {
    "PATH": "/nonexistent",
    "LC_ALL": "tr_TR.UTF-8",
    "CDPATH": "/",
    "ENV": "/nonexistent",
    "HISTFILE": "/dev/null",
    "POSIXLY_CORRECT": "1",
    "PYTHONHOME": "/nonexistent",
    "TERM": "dumb",
}
ODD = "it's \\ \\\\ $HOME `id` %s !! ~ * \n\tö=#&|<>;(){}[]^"
FAILS = {
    "exec /bin/sh -c 'exit 3'": "ended with status 3 before it ran the command",
    "exec false": "ended with status 1 before it ran the command",
    "exec echo 'no commands here'": "and printed 'no commands here'",
}
"""Lines that every shell understands, as people write them instead of changing their shell."""
READS = {"bash": "read answer", "zsh": "read answer", "fish": "read answer", "tcsh": "set answer = $<"}


def start_up_files(program: str) -> dict[str, str]:
    """Start-up files that let commands through, by name: each line alone, and pairs of lines."""
    setting = SETS.get(program, "export {}={}")
    lines = PRINTS | {f"sets {name}": setting.format(name, value) for name, value in VARIABLES.items()}
    lines |= {"changes the folder": "cd /", "takes all rights": "umask 777"}
    pairs = {
        f"{one}, {other}": f"{lines[one]}\n{lines[other]}" for one, other in itertools.combinations(lines, 2)
    }
    return lines | dict(list(pairs.items())[::4])


NEEDED = ["bash", *(pytest.param(name, marks=pytest.mark.needs(name)) for name in SHELLS if name != "bash")]


@pytest.fixture(params=NEEDED)
def program(request: pytest.FixtureRequest) -> str:
    return find(request.param) or request.param


class Host:
    """A machine whose user has a login shell."""

    def __init__(self, machine: Server, folder: Path, program: str) -> None:
        self.home, self.file = folder / "home", folder / "home" / SHELLS[Path(program).name]
        self.file.parent.mkdir(parents=True)
        machine.on_command, machine.on_data = shell(self.home, program), lambda channel, data: None
        ssh = machine.access.model_copy(update={"identity_file": str(client_key(folder / "key"))})
        access = Access(ssh=ssh, python=sys.executable)
        bundle = bundle_of(write_bundle(folder / "bundle"))
        self.node = SshNode("far", access, bundle, asyncio.Semaphore(1), folder / "gateway")


@pytest.fixture
async def host(tmp_path: Path, program: str) -> AsyncIterator[Host]:
    with tempfile.TemporaryDirectory(prefix="s-") as folder:  # short, for the sockets
        async with server() as machine:
            made = Host(machine, Path(folder), program)
            yield made
            await made.node.close()


async def test_a_command_is_the_same_whatever_start_up_files_print_and_set(host: Host, program: str) -> None:
    words = ("/bin/sh", "-c", 'printf "%s|" "$@"; cat; umask; pwd; uname >&2; exit 7', "x", ODD, "")
    expected = f"{ODD}||given0022\n{host.home}\n"
    for name, lines in start_up_files(Path(program).name).items():
        host.file.write_text(f"{lines}\n")
        done = await host.node.run(words, stdin=b"given", timeout=60)
        assert (name, done.status, done.out, done.err) == (name, 7, expected, f"{os.uname().sysname}\n")


async def test_an_agent_starts_beside_the_worst_of_them(host: Host) -> None:
    host.file.write_text(f"{PRINTS['200 kB']}\nprintf again\ncd /\numask 777\n")
    await host.node.start_agent()
    link = await host.node.dial()
    await link.request(Shutdown(7), timeout=60)
    await link.close()


@pytest.mark.parametrize("lines", FAILS)
async def test_a_shell_that_runs_no_command_is_told_with_what_it_says_and_the_remedy(
    host: Host, lines: str
) -> None:
    host.file.write_text(f"{lines}\n")
    with pytest.raises(Barred, match=FAILS[lines]) as caught:
        await host.node.profile()
    assert (caught.value.code, caught.value.remedy) == ("LoginShell", "chsh -s /bin/sh")


async def test_a_start_up_file_that_waits_for_input_is_found_and_gets_none_of_it(
    host: Host, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "STARTUP_SECONDS", 1.0)
    for lines in (READS[Path(program).name], "cat > taken"):
        host.file.write_text(f"{lines}\n")
        with pytest.raises(
            Barred, match=f"the login shell {program} has a start-up file that waits for input"
        ):
            await host.node.profile()
        with pytest.raises(Silent, match=r"has not come to the command within \S+ s; let its start-up files"):
            await host.node.run(("cat",), stdin=b"secret", timeout=2.0)
    assert (host.home / "taken").read_text() == ""


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=3
    )
)
@pytest.mark.parametrize("program", ["sh", *NEEDED])
def test_every_word_arrives_as_it_is(program: str, words: list[str]) -> None:
    line = command_line(("/bin/sh", "-c", 'printf "%s\\n" "$@"', "x", *words))
    done = subprocess.run([program, "-c", line], capture_output=True, timeout=60, check=True)
    out = Output(OUT_MARK)
    out.feed(done.stdout)
    assert out.data.decode() == "".join(f"{word}\n" for word in words)


@given(before=st.binary(max_size=3000), after=st.binary(max_size=50), data=st.data())
def test_output_begins_after_the_mark_however_it_is_cut(
    before: bytes, after: bytes, data: st.DataObject
) -> None:
    text = before + b"\n" + OUT_MARK + b"/bin/odd shell\n" + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    out = Output(OUT_MARK)
    for start, end in itertools.pairwise([0, *cuts, len(text)]):
        out.feed(text[start:end])
    assert (bytes(out.data), out.rest_of_mark) == (after, "/bin/odd shell")


def test_a_user_without_a_shell_is_told_apart(tmp_path: Path) -> None:
    out = Output(ERR_MARK)
    out.feed(b"This account is currently not available.\n")
    assert not out.begun
    assert b"not available" in out.data
