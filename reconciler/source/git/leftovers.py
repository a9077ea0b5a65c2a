"""Removes the files that a killed git leaves in a repository, and that git itself never removes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_PROC = Path("/proc")
FRESH_SECONDS = 0.1 if (_PROC / "uptime").exists() else 2.0
"""A younger lock is left alone. It is also the tolerance for ages from ``ps``, which counts whole seconds."""
LOCK_SECONDS_MAX = 120.0
"""git holds a lock for milliseconds: an older one is left over from a killed git, even if another git runs."""
QUARANTINE_SECONDS_MAX = 24 * 3600.0
"""No push takes this long: objects in quarantine for longer are left over from a killed push."""
PS_SECONDS = 5.0
PATIENCE_SECONDS = 3.0
"""The wait for a lock before a push, in which the lock of a dead git is removed."""
_LOOK_SECONDS = 0.1
_OF_REFS = ("[!cgi]*.lock", "reftable/*.lock", "refs/**/*.lock", "logs/**/*.lock")
"""Locks that keep pushes out; those of ``config``, gc, an index and ``objects`` do not. No ref's name may end like
this."""
_ALL = (
    *(
        "*.lock",
        "gc.pid",
        "packed-refs.new",
        "objects/*.lock",
        "objects/info/**/*.lock",
        "objects/pack/*.lock",
    ),
    *(*_OF_REFS[1:], "info/*.lock", "worktrees/**/*.lock"),
)
"""Files with which git locks others. `git gc` leaves ``gc.pid``, which keeps out other gcs, but no push.
``packed-refs.new``, which git makes under a lock, keeps out each git that packs or removes refs."""
_NAMED = re.compile(rb"(?:^|\0)(?:--git-dir[=\0]|GIT_DIR=)([^\0]+)")
"""Finds the repository in the arguments or variables of a process."""
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


def drop_leftovers(path: Path) -> list[Path]:
    """Remove the leftovers of killed gits in the bare repository at ``path``. Return their paths."""
    dropped = []
    there = [lock for lock in _locks(path, _ALL) if _age_seconds(lock) > FRESH_SECONDS]
    oldest = _oldest_git_seconds(path) if there else 0.0
    for lock in there:
        age = _age_seconds(lock)
        if age > min(oldest + FRESH_SECONDS, LOCK_SECONDS_MAX):
            lock.unlink(missing_ok=True)
            dropped.append(lock)
    for quarantine in (path / "objects").glob("tmp_objdir-*"):
        if _age_seconds(quarantine) > QUARANTINE_SECONDS_MAX:
            shutil.rmtree(quarantine, ignore_errors=True)
            dropped.append(quarantine)
    return dropped


def wait_until_free(path: Path) -> Path | None:
    """Wait for the locks that keep a push out of the bare repository at ``path``. Living git processes release theirs
    within moments, and those of dead ones are removed. Return the path of a remaining lock in the repository; None if
    there is none."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (lock := next(_locks(path, _OF_REFS), None)) is not None and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        drop_leftovers(path)
    return lock.relative_to(path) if lock is not None else None


def lock_text(lock: Path) -> str:
    """Return why a push cannot be taken while a file of the repository is locked, and what to do."""
    return (
        f"{lock}: another git writes to this repository, or was killed a moment ago: push again in a moment; the lock of one"
        f" that is dead is removed by itself, at the latest after {LOCK_SECONDS_MAX:g} s"
    )


def _locks(path: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(path.glob(pattern))


def _oldest_git_seconds(path: Path) -> float:
    """Return the age in seconds of the oldest git process at work in the repository; 0 without one, infinity if it is
    not known. A lock older than every git was left by a dead one."""
    try:
        return max(_git_seconds(os.path.realpath(path)).values(), default=0.0)
    except (OSError, ValueError, subprocess.SubprocessError):
        return float("inf")


def _git_seconds(repository: str) -> dict[int, float]:
    """Return the ages in seconds of the git processes at work in a repository, by pid. Such a process has its working
    folder there, as the receiver of a push does, or it names the repository."""
    if (_PROC / "uptime").exists():
        return dict(_in_proc(repository))
    listed = _output("ps", "-A", "-ww", "-o", "pid=,etime=,comm=")
    found = [line.split(None, 2) for line in listed.splitlines()]
    gits = {each[0]: _seconds(each[1]) for each in found if len(each) == 3 and _is_git(each[2])}
    if not gits:
        return {}
    within = _working_in(repository, _output("lsof", "-a", "-p", ",".join(gits), "-d", "cwd", "-F", "pn"))
    words = _output("ps", "-ww", "-o", "pid=,args=", "-p", ",".join(gits)).splitlines()
    naming = {line.split()[0] for line in words if repository in line}
    return {int(pid): seconds for pid, seconds in gits.items() if pid in within | naming}


def _output(*command: str) -> str:
    """Return a tool's output. Its status is not used: it only says that a process has ended meanwhile."""
    done = subprocess.run(command, capture_output=True, timeout=PS_SECONDS, check=False)
    return done.stdout.decode("utf-8", "replace")


def _working_in(repository: str, listed: str) -> set[str]:
    """Return the pids whose working folder is in the repository, from the output of ``lsof -F pn``. It includes
    processes without a folder, which other users may not see."""
    found: dict[str, str] = {}
    pid = ""
    for line in listed.splitlines():
        if line.startswith("p"):
            pid = line[1:]
            found[pid] = repository
        elif line.startswith("n"):
            found[pid] = line[1:]
    return {pid for pid, folder in found.items() if _is_in(folder, repository)}


def _in_proc(repository: str) -> Iterator[tuple[int, float]]:
    uptime = float((_PROC / "uptime").read_text(encoding="utf-8").split()[0])
    for folder in _PROC.glob("[0-9]*"):
        try:
            begin, _, rest = (folder / "stat").read_text("utf-8", "replace").rpartition(")")
            if _is_git(begin.partition("(")[2]) and _is_at_work(folder, repository):
                yield int(folder.name), uptime - int(rest.split()[19]) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue  # it has ended


def _is_at_work(process: Path, repository: str) -> bool:
    try:
        folder = str((process / "cwd").readlink())
        said = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except PermissionError:
        return True  # another user's process: its folder is not visible
    named = (os.fsdecode(each) for each in _NAMED.findall(said))
    return any(_is_in(os.path.realpath(Path(folder, each)), repository) for each in (".", *named))


def _is_in(folder: str, repository: str) -> bool:
    return folder == repository or folder.startswith(f"{repository}/")


def _is_git(command: str) -> bool:
    name = command.strip().rpartition("/")[2]
    return name == "git" or name.startswith("git-")


def _seconds(elapsed: str) -> float:
    """Return a time of ``ps``, such as ``1-02:03:04``, in seconds."""
    found = _ELAPSED.fullmatch(elapsed)
    if found is None:
        return float("inf")
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _age_seconds(path: Path) -> float:
    """Return the time since the last change; negative if the file does not exist."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return -1.0
