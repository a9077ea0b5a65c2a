"""Programs and rights that some tests need, and every machine that has Python, git and make may lack.

A test, a class, a module or a parameter says it with the mark ``needs``: ``@pytest.mark.needs("sshd")``; a fixture, which
takes no marks, with ``needing("sshd")`` below ``pytest.fixture``. Where something is missing, the test is left out, and one
line at the end of the run counts what was left out, with the package to install. A test that starts a program without
saying so fails.

``python -m tests.needs`` prints the packages of Debian that are missing. ``RECONCILER_LEFT_OUT`` names a file that gets the ids of what was left out, one a line: arguments of a later run.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).parents[1]
VARIABLE = "RECONCILER_LEFT_OUT"
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin")
"""Folders of programs that the PATH of a user may lack."""
EVERYWHERE = frozenset(
    [
        "awk",
        "basename",
        "bash",
        "cat",
        "chmod",
        "cp",
        "cut",
        "dash",
        "date",
        "dirname",
        "echo",
        "env",
        "expr",
        "false",
        "find",
        "git",
        "git-http-backend",
        "grep",
        "head",
        "hostname",
        "id",
        "kill",
        "ln",
        "ls",
        "make",
        "mkdir",
        "mv",
        "printf",
        "pwd",
        "readlink",
        "rm",
        "sed",
        "sh",
        "sleep",
        "sort",
        "stat",
        "stty",
        "tail",
        "tar",
        "tee",
        "test",
        "touch",
        "tr",
        "true",
        "tty",
        "uname",
        "uniq",
        "wc",
        "xargs",
    ]
)
"""Programs of Debian's essential packages that macOS has too, and git."""
_TRIAL_SECONDS = 30.0


@dataclass(frozen=True)
class Need:
    """Something that a machine may lack."""

    programs: tuple[str, ...] = ()
    """Any one of them does, and a test may start each."""
    debian: str = ""
    """The package to install, also by ``.ci/run``."""
    homebrew: str = ""
    otherwise: str = ""
    """What else to do about it."""
    holds: Callable[[], bool] = lambda: True
    """A right, or a trial of what the kernel gives."""

    def installed(self) -> bool:
        return not self.programs or any(map(find, self.programs))

    def there(self) -> bool:
        return self.installed() and self.holds()

    @property
    def remedy(self) -> str:
        packages = {"Debian": self.debian, "Homebrew": self.homebrew}
        return "; ".join([f"{of}: {name}" for of, name in packages.items() if name] or [self.otherwise])


def find(name: str) -> str | None:
    """Return the path of a program, also where the system's folders are not on PATH."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM_FOLDERS)))


def works(*command: str) -> bool:
    """Return whether a trial succeeds."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
"""The words before a command that has mounts of its own."""


def trial(*command: str) -> Callable[[], bool]:
    return functools.partial(works, *OWN_MOUNTS, *command)


NEEDS = {
    "sshd": Need(("sshd",), "openssh-server"),
    "ssh": Need(("ssh",), "openssh-client"),
    "ssh-keygen": Need(("ssh-keygen",), "openssh-client"),
    "ssh-agent": Need(("ssh-agent", "ssh-add"), "openssh-client"),
    "zsh": Need(("zsh",), "zsh"),
    "fish": Need(("fish",), "fish", "fish"),
    "tcsh": Need(("tcsh",), "tcsh", "tcsh"),
    "java": Need(("java", "javac"), "default-jdk-headless", "openjdk"),
    "mawk": Need(("mawk",), "mawk", "mawk"),
    "gawk": Need(("gawk",), "gawk", "gawk"),
    "original-awk": Need(("original-awk",), "original-awk"),
    "busybox": Need(("busybox",), "busybox"),
    "c++": Need(("c++", "g++", "clang++"), "g++"),
    "jq": Need(("jq",), "jq", "jq"),
    "curl": Need(("curl",), "curl"),
    "ps": Need(("ps",), "procps"),
    "mpirun": Need(("mpirun",), "openmpi-bin", "open-mpi"),
    "hpcc": Need(("hpcc",), "hpcc", otherwise="Debian has it"),
    "chromium": Need(("chromium", "google-chrome"), "chromium", "--cask chromium"),
    "redis-server": Need(("valkey-server", "redis-server"), "redis-server", "redis"),
    "prometheus": Need(("prometheus",), "prometheus", "prometheus"),
    "promtool": Need(("promtool",), "prometheus", "prometheus"),
    "node": Need(("node",), "nodejs", "node"),
    "sudo": Need(("sudo", "visudo"), "sudo"),
    "nft": Need(("nft",), "nftables", holds=trial("--net", "nft", "add", "table", "inet", "try")),
    "ip": Need(("ip",), "iproute2", holds=trial("--net", "ip", "link", "add", "x", "type", "bridge")),
    "systemd": Need(
        ("/lib/systemd/systemd", "systemctl"), otherwise="a Debian that boots with systemd has it"
    ),
    "linux": Need(otherwise="run on Linux", holds=lambda: sys.platform == "linux"),
    "root": Need(otherwise="run as root", holds=lambda: os.geteuid() == 0),
    "namespaces": Need(
        ("unshare", "nsenter", "setpriv", "mount"),
        otherwise="run as root on Linux, where namespaces are allowed",
        holds=trial("--net", "--pid", "--fork", "true"),
    ),
}
"""What a test may need, by the name that it says it with."""

Function = TypeVar("Function", bound=Callable[..., Any])


def needing(*names: str) -> Callable[[Function], Function]:
    """Say of a fixture what it needs."""
    assert all(name in NEEDS for name in names), names

    def say(function: Function) -> Function:
        function.__dict__["needs"] = names
        return function

    return say


@functools.cache
def there(name: str) -> bool:
    """Return whether this machine has what has this name in ``NEEDS``."""
    return NEEDS[name].there()


def needs_of(item: pytest.Item) -> list[str]:
    """Return what a test and its fixtures say that they need."""
    said = [name for mark in item.iter_markers("needs") for name in mark.args]
    fixtures = getattr(item, "_fixtureinfo", None)
    for definitions in fixtures.name2fixturedefs.values() if fixtures else ():
        for definition in definitions:
            said += getattr(definition.func, "needs", ())
    unknown = [name for name in said if name not in NEEDS]
    assert not unknown, f"{item.nodeid} needs {', '.join(unknown)}: not in NEEDS of tests/needs.py"
    return list(dict.fromkeys(said))


class LeavingOut:
    """Leaves tests out whose needs are not met, and says so at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out: dict[str, list[str]] = {}
        """What is missing, by the id of each test."""

    @pytest.hookimpl(trylast=True)  # after tiers and -k, so that only those count that would run
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        missing = {item: [name for name in needs_of(item) if not there(name)] for item in items}
        self._left_out = {item.nodeid: names for item, names in missing.items() if names}
        self._config.hook.pytest_deselected(items=[item for item in items if missing[item]])
        items[:] = [item for item in items if not missing[item]]

    def pytest_sessionfinish(self) -> None:
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["left_out"] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """All workers leave out the same."""
        self._left_out |= getattr(node, "workeroutput", {}).get("left_out", {})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            terminalreporter.write_line(summary(self._left_out.values()))
        if file := os.environ.get(VARIABLE):
            Path(file).write_text("".join(f"{nodeid}\n" for nodeid in self._left_out))


def summary(missing: Iterable[Iterable[str]]) -> str:
    """Return the line that counts what was left out, given what is missing for each test."""
    of_each = list(missing)
    counts = Counter(name for names in of_each for name in names)
    parts = (f"{count} for {name} ({NEEDS[name].remedy})" for name, count in counts.most_common())
    return f"left out {len(of_each)} test{'s' * (len(of_each) != 1)}: {', '.join(parts)}"


class Undeclared:
    """Fails each test that starts a program that not every machine has, and that it does not say it needs.

    It sees what the test's own process starts, of the product too; programs that a child of it starts are missed.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        import_module("asyncssh")  # asks gcc and ldconfig where libraries are, when it is imported first
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
            path, words = arguments[:2]
            program = os.fsdecode(path or words[0])
            if is_foreign(program):
                self._used.add(Path(program).name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._used.clear()
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        yield
        said = {Path(program).name for name in needs_of(item) for program in NEEDS[name].programs}
        unsaid = sorted(self._used - said)
        if unsaid:
            pytest.fail(f"it uses {', '.join(unsaid)}, and does not say that it needs it: see tests/needs.py")


def is_foreign(program: str) -> bool:
    """Return whether a program is of this machine, and not one that every machine has: not Python's, the tests' or a
    virtual environment's."""
    name = Path(program).name
    found = program if os.sep in program else find(program)
    if name in EVERYWHERE or name.startswith("python") or found is None:
        return False
    path = Path(os.path.abspath(found))  # noqa: PTH100  a link of a virtual environment is of the environment
    ours = (Path(sys.prefix), Path(sys.executable).parent, ROOT, Path(tempfile.gettempdir()))
    return path.exists() and not any(
        path.is_relative_to(each) for each in (*ours, *(o.resolve() for o in ours))
    )


def main() -> None:
    """Print the packages of Debian that are missing here."""
    print(*sorted({need.debian for need in NEEDS.values() if need.debian and not need.installed()}))


if __name__ == "__main__":
    main()
