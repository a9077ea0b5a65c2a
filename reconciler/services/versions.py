"""The versions of the product in a home: each is a separate environment, and the service runs one of them.

``versions/VERSION`` is an environment that uv makes (https://docs.astral.sh/uv/), complete or not at all.
``versions/current`` is a link to the one in use, ``versions/previous`` to the one before, and ``versions/previous.db``
is the store as that one left it. Ranks keep running with the version that started them, so both environments stay.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from reconciler.errors import Refused

UV_SECONDS = 1800.0
"""Time for an installation: some packages have hundreds of megabytes."""
ASK_SECONDS = 60.0
LIST_SECONDS = 20.0
_WORDS_MAX = 2000
_DRAFT = ".making"
CURRENT, PREVIOUS, PREVIOUS_STORE, SWITCHING = "current", "previous", "previous.db", "switching"


@dataclass(frozen=True, slots=True)
class Versions:
    """The folder of versions of one home."""

    root: Path

    @property
    def current(self) -> str | None:
        """Return the version that the service runs; None if none is installed."""
        return self._linked(CURRENT)

    @property
    def previous(self) -> str | None:
        """Return the version to go back to; None if there is none."""
        return self._linked(PREVIOUS)

    @property
    def previous_store(self) -> Path:
        return self.root / PREVIOUS_STORE

    def python(self, version: str) -> Path:
        return self.root / version / "bin" / "python"

    def make(self, requirement: str, index_url: str | None = None) -> str:
        """Make the environment of a version, unless it is there. Return its name: the version, followed by ``-`` and a
        digest if the one in use has that version but other contents.

        ``requirement``: the package, as pip and uv read it. ``index_url``: the only index to use. Raises ``Refused``
        (``VersionUnavailable``) with uv's message.
        """
        draft = self.root / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        base = getattr(sys, "_base_executable", sys.executable)
        python = str(draft / "bin" / "python")
        try:
            _uv("venv", "--quiet", "--no-project", "--relocatable", "--python", base, str(draft))
            index = () if index_url is None else ("--default-index", index_url)
            _uv("pip", "install", "--quiet", *index, "--python", python, requirement)
            ask = (python, "-P", "-c", "import reconciler; print(reconciler.__version__)")
            name = self._name(_output(ask, ASK_SECONDS).strip(), _digest(draft))
            if not (self.root / name).exists():
                draft.rename(self.root / name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return name

    def _name(self, version: str, digest: str) -> str:
        """Return the name of a version with that content: that of the environment that has it, else a free one. Unused
        environments are removed, because other packages in them may be older."""
        named = {path.name for path in self.root.iterdir() if path.is_dir() and number(path.name) == version}
        self._drop(named - {self.current, self.previous, CURRENT, PREVIOUS})
        for name in (self.current, self.previous, version):
            if name in named and (self.root / name).exists() and _digest(self.root / name) == digest:
                return name
        return f"{version}-{digest}" if (self.root / version).exists() else version

    def use(self, version: str, previous: str | None) -> None:
        """Make the service run ``version`` from its next start on."""
        self._link(CURRENT, version)
        if previous is not None:
            self._link(PREVIOUS, previous)
            return
        for name in (PREVIOUS, PREVIOUS_STORE):
            (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def switching(self) -> Iterator[None]:
        """Make the service's script wait meanwhile. It continues after this process has ended, however that ends."""
        note = self.root / SWITCHING
        note.write_text(f"{os.getpid()}\n", encoding="utf-8")
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    @property
    def being_switched(self) -> bool:
        """Return whether a process is replacing the version at this moment."""
        with suppress(OSError, ValueError):
            os.kill(int((self.root / SWITCHING).read_text(encoding="utf-8")), 0)
            return True
        return False

    def drop_unused(self) -> None:
        """Remove versions other than the current and the previous one that no process was started from."""
        found = {path.name for path in self.root.iterdir() if path.is_dir() and not path.is_symlink()}
        self._drop(found - {self.current, self.previous})

    def _drop(self, versions: Set[str]) -> None:
        """Remove those versions that no process was started from."""
        listed = _commands()
        for path in (self.root / version for version in versions):
            if path.is_dir() and f"{path}/" not in listed:
                shutil.rmtree(path)

    def _linked(self, name: str) -> str | None:
        with suppress(OSError):
            target = str((self.root / name).readlink())
            return target if self.python(target).exists() else None
        return None

    def _link(self, name: str, version: str) -> None:
        draft = self.root / f".{name}.new"
        draft.unlink(missing_ok=True)
        draft.symlink_to(version)
        draft.rename(self.root / name)


def number(name: str) -> str:
    """Return the version that a controller from an environment reports."""
    return name.partition("-")[0]


def _digest(environment: Path) -> str:
    """Return a digest of the product's files in an environment, from the installer's record."""
    found = hashlib.sha256()
    for record in sorted(environment.glob("lib/python*/site-packages/mlx_reconciler-*.dist-info/RECORD")):
        for line in sorted(record.read_text(encoding="utf-8").splitlines()):
            if line.startswith("reconciler/") and not line.partition(",")[0].endswith(".pyc"):
                found.update(f"{line}\n".encode())
    return found.hexdigest()[:12]


def _uv(*words: str) -> None:
    _output((find_uv_bin(), *words), UV_SECONDS)


def _commands() -> str:
    """Return the command lines of all processes. On Linux, from ``/proc/PID/cmdline`` (proc(5)), because Debian may
    have no ``ps``. Raises ``Refused``."""
    if sys.platform != "linux":
        return _output(("ps", "-A", "-ww", "-o", "args="), LIST_SECONDS)
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(os.fsdecode(path.read_bytes().replace(b"\0", b" ")))
    return "\n".join(lines)


def _output(command: tuple[str, ...], seconds: float) -> str:
    """Run a command and return its output. Raises ``Refused`` with its message."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused("VersionUnavailable", f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip()[-_WORDS_MAX:]
        raise Refused("VersionUnavailable", f"{Path(command[0]).name} {command[1]}: {words}")
    return done.stdout
