"""The keeper: the parent of a job's program, and the only process of the product that runs as the job's user.

A module without others of the product: the launcher sends its source to a Python that the job's user may run, over
standard input, and then commands, one line of JSON each. The keeper answers on standard output. Its standard error is
the program's output. The end of its standard input means that the launcher is gone: then everything ends at once.

======================  =============================================================================
command                 answer
======================  =============================================================================
``prepare``             ``prepared``, or ``failed`` with the reason: the working directory, with its files
``start``               ``started``; later ``ended`` with the status of ``waitpid``, or 127 and a ``problem``
``end``                 none: SIGTERM to the program's group, and SIGKILL to everything after ``grace`` seconds
``sweep``               ``swept`` once everything that descends from the launcher is gone
======================  =============================================================================

``limit`` comes unasked, with the reason, when the files of the working directory exceed its quota.

A program may start processes that leave its group and its parent. On Linux the keeper is their parent by then
(``PR_SET_CHILD_SUBREAPER``), and all descendants are killed. macOS has nothing like it: there the keeper remembers the
descendants that it has seen, with their groups and sessions. If the user runs jobs alone, processes of that user that
began after the keeper are killed too, unless another keeper of the user runs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

MARK = "reconciler-job-keeper"
"""The last argument of each keeper, by which keepers know each other."""
NOT_STARTED = 127
"""Exit status of a program that cannot be started, as shells have it."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at the processes of macOS."""
QUOTA_SECONDS = 1.0
"""Shortest time between two measurements of the working directory."""
QUOTA_SHARE = 20
"""A measurement begins after this many times the duration of the last one, so that it takes a twentieth of a core."""
SLICE_SECONDS = 0.02
ENTRIES_MAX = 1_000_000
DEPTH_MAX = 128
SWEEP_SECONDS = 10.0
"""Bound on the time for killing: the kernel may hold a process for ever."""
_PR_SET_CHILD_SUBREAPER = 36
PS_SECONDS = 10.0
_LINUX = sys.platform.startswith("linux")
_COMMAND_BYTES_MAX = 8 * 1024 * 1024


class Exceeded(Exception):
    """The working directory has more than it may; the text says what."""


class Process(NamedTuple):
    """One process of the machine."""

    pid: int
    parent: int
    group: int
    session: int
    uid: int
    dead: bool
    keeper: bool


class Tree:
    """The processes to kill: descendants of this process and of ``root``, but for this process and its ancestors."""

    def __init__(self, root: int, own_user: bool) -> None:
        self._roots = {root, os.getpid()}
        self._own_user = own_user
        self._before = {each.pid for each in processes()} if own_user else set()
        self._seen: Set[int] = set()
        become_subreaper()

    def look(self) -> List[int]:
        """Return all living members now."""
        table = {each.pid: each for each in processes()}
        spared = ancestors(table, os.getpid())
        children: Dict[int, List[int]] = {}
        for each in table.values():
            children.setdefault(each.parent, []).append(each.pid)
        self._seen &= set(table)
        roots = self._roots & spared  # the pid of a launcher that is gone may be another's by now
        found, waiting = set(), [*roots, *self._seen]
        groups = {table[pid].group for pid in self._seen} | {table[pid].session for pid in self._seen}
        groups -= {table[pid].group for pid in spared if pid in table}
        groups -= {table[pid].session for pid in spared if pid in table}
        if not _LINUX:  # there the tree is complete without it
            waiting += [each.pid for each in table.values() if {each.group, each.session} & groups]
        if self._own_user and self._alone(table):
            mine = os.getuid()
            waiting += [e.pid for e in table.values() if e.uid == mine and e.pid not in self._before]
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += children.get(pid, [])
        self._seen = found - spared
        return [pid for pid in self._seen if not table[pid].dead]

    def _alone(self, table: Dict[int, Process]) -> bool:
        mine = os.getuid()
        return not any(e.keeper and e.uid == mine and e.pid != os.getpid() for e in table.values())

    def kill(self, reap: Callable[[], None]) -> None:
        """Kill all members, until there are none. ``reap`` takes the status of children that have ended."""
        until = time.monotonic() + SWEEP_SECONDS
        while time.monotonic() < until:
            members = self.look()
            if not members:
                self._seen.clear()  # later their pids may be those of others
                return
            for pid in members:
                with contextlib.suppress(OSError):  # gone, or of another user
                    os.kill(pid, signal.SIGKILL)
            reap()
            time.sleep(0.005)


def become_subreaper() -> None:
    """Make this process the parent of descendants whose parent ends, on Linux."""
    if not _LINUX:
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes() -> Iterator[Process]:
    """Yield all processes that the system shows."""
    return _from_proc() if _LINUX else _from_ps()


def _from_proc() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/" + name + "/stat", "rb") as stream:
                content = stream.read()
            with open("/proc/" + name + "/cmdline", "rb") as stream:
                keeper = stream.read().endswith(MARK.encode() + b"\0")
            uid = os.stat("/proc/" + name).st_uid
        except OSError:
            continue  # it has ended
        fields = content[content.rindex(b")") + 2 :].split()
        dead = fields[0] in (b"Z", b"X") and int(fields[17]) < 2  # other threads may outlive the first
        yield Process(int(name), int(fields[1]), int(fields[2]), int(fields[3]), uid, dead, keeper)


def _from_ps() -> Iterator[Process]:
    columns = ("ps", "-axww", "-o", "pid=,ppid=,pgid=,uid=,stat=,command=")
    try:
        shown = subprocess.run(
            columns,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            timeout=PS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return  # the next look may see them
    for line in shown.stdout.decode("utf-8", "replace").splitlines():
        row = line.split(None, 5)
        if len(row) < 5 or not row[0].isdigit():
            continue
        pid, parent, group, uid = map(int, row[:4])
        try:
            session = os.getsid(pid)
        except OSError:
            session = group
        yield Process(pid, parent, group, session, uid, row[4][0] == "Z", line.endswith(MARK))


def ancestors(table: Dict[int, Process], pid: int) -> Set[int]:
    """Return a process and everything above it."""
    found: Set[int] = set()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].parent
    return found


def measured(folder: int, device_seen: Set[Tuple[int, int]], depth: int = 0) -> Iterator[int]:
    """Yield the bytes on disk of each entry below an open folder, which is closed. Raises ``Exceeded``.

    It goes from folder to folder by descriptor: paths of any length are measured, and links are not followed.
    """
    if depth > DEPTH_MAX:
        os.close(folder)
        raise Exceeded("the working directory has more than {} folders within each other".format(DEPTH_MAX))
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # it was removed meanwhile
                key = (status.st_dev, status.st_ino)
                known = status.st_nlink > 1 and key in device_seen
                if status.st_nlink > 1:
                    device_seen.add(key)
                yield 0 if known else status.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    inner = _opened(entry.name, folder)
                    if inner is not None:
                        yield from measured(inner, device_seen, depth + 1)
    finally:
        os.close(folder)


def _opened(name: str, folder: int) -> Optional[int]:
    """Open a folder, if need be one that its mode hides; None if it is none, or gone."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        try:
            return os.open(name, flags, dir_fd=folder)
        except PermissionError:
            os.chmod(name, 0o700, dir_fd=folder)
            return os.open(name, flags, dir_fd=folder)
    return None


class Quota:
    """Measures a folder in slices, now and then."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._max = bytes_max
        self._walk: Optional[Iterator[int]] = None
        self._bytes = self._entries = 0
        self._spent = 0.0
        self._next = time.monotonic()

    def step(self) -> float:
        """Measure on if it is time; return the seconds until the next step. Raises ``Exceeded``."""
        now = time.monotonic()
        if self._walk is None:
            if now < self._next:
                return self._next - now
            try:
                folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:
                self._next = now + QUOTA_SECONDS
                return QUOTA_SECONDS
            self._walk, self._bytes, self._entries, self._spent = measured(folder, set()), 0, 0, 0.0
        for size in self._walk:
            self._bytes += size
            self._entries += 1
            self._check()
            if time.monotonic() - now > SLICE_SECONDS:
                self._spent += time.monotonic() - now
                return SLICE_SECONDS
        self._walk = None
        self._spent += time.monotonic() - now
        pause = max(QUOTA_SECONDS, QUOTA_SHARE * self._spent)
        self._next = time.monotonic() + pause
        return pause

    def _check(self) -> None:
        if self._bytes > self._max:
            raise Exceeded("the working directory has more than {} bytes, its limit".format(self._max))
        if self._entries > ENTRIES_MAX:
            raise Exceeded("the working directory has more than {} files".format(ENTRIES_MAX))


class Keeper:
    """Carries out the launcher's commands until its standard input ends."""

    def __init__(self, root: int, own_user: bool) -> None:
        self._tree = Tree(root, own_user)
        self._quota: Optional[Quota] = None
        self._input = b""
        self._program: Optional[int] = None
        self._status: Optional[int] = None
        """The program's status of ``waitpid`` that is not told yet."""
        self._kill_at: Optional[float] = None
        self._look_at = 0.0

    def run(self) -> None:
        """Serve. Everything is gone when it returns."""
        woken, wake = os.pipe()
        for descriptor in (woken, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the launcher decides
        open_ = True
        while open_:
            ready, _, _ = select.select([0, woken], [], [], self._pause())
            if woken in ready:
                os.read(woken, 4096)
            if 0 in ready:
                open_ = self._hear()
            self._reap()
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = None
                self._tree.kill(self._reap)
            if self._status is not None:
                self._conclude(self._status)
        self._tree.kill(self._reap)

    def _pause(self) -> float:
        pause = 60.0
        if self._kill_at is not None:
            pause = min(pause, max(0.0, self._kill_at - time.monotonic()))
        if self._program is None:
            return pause
        if not _LINUX:
            if time.monotonic() >= self._look_at:
                self._tree.look()
                self._look_at = time.monotonic() + LOOK_SECONDS
            pause = min(pause, LOOK_SECONDS)
        if self._quota is not None:
            try:
                pause = min(pause, self._quota.step())
            except Exceeded as error:
                self._quota = None
                say(limit=str(error))
        return pause

    def _hear(self) -> bool:
        chunk = os.read(0, 1 << 16)
        self._input += chunk
        *lines, self._input = self._input.split(b"\n")
        for line in lines:
            command = json.loads(line)
            getattr(self, "_" + command.pop("do"))(**command)
        return bool(chunk) and len(self._input) < _COMMAND_BYTES_MAX

    def _prepare(self, folder: str, folders: List[str], files: List[Any]) -> None:
        try:
            os.mkdir(folder, 0o700)
            os.chdir(folder)
            for name in folders:
                os.mkdir(name, 0o700)
            for name, content, executable in files:
                mode = 0o700 if executable else 0o600
                with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
                    stream.write(base64.b64decode(content))
        except OSError as error:
            say(failed="cannot make the working directory {}: {}".format(folder, error))
            return
        say(prepared=True)

    def _start(self, argv: List[str], env: Dict[str, str], limits: Dict[str, int]) -> None:
        problem, problem_given = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(problem)
            become(argv, env, limits, problem_given)
        os.close(problem_given)
        text = b""
        while chunk := os.read(problem, 4096):
            text += chunk
        os.close(problem)
        if text:
            os.waitpid(pid, 0)
            say(ended=NOT_STARTED << 8, problem=text.decode("utf-8", "replace"))
            return
        self._program = pid
        self._quota = Quota(".", limits["disk"])
        say(started=pid)

    def _end(self, grace: float) -> None:
        if self._program is None:
            return  # it has ended meanwhile, and the next one is not meant
        for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process does not hear
            with contextlib.suppress(OSError):
                os.killpg(self._program, number)
        due = time.monotonic() + max(0.0, grace)
        self._kill_at = due if self._kill_at is None else min(due, self._kill_at)

    def _sweep(self) -> None:
        self._tree.kill(self._reap)
        say(swept=True)

    def _reap(self) -> None:
        """Take the status of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._program:
                self._program, self._status = None, status

    def _conclude(self, status: int) -> None:
        """The program's end is everybody's."""
        self._status = self._quota = self._kill_at = None
        self._tree.kill(self._reap)
        say(ended=status)


def become(argv: List[str], env: Dict[str, str], limits: Dict[str, int], problem: int) -> None:
    """Become the program, in a process group of its own. Never returns."""
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for kind, wanted in (
            (resource.RLIMIT_NOFILE, limits["open_files"]),
            (resource.RLIMIT_NPROC, limits["processes"]),
            (resource.RLIMIT_FSIZE, limits["disk"]),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(kind, (value, value))
        os.umask(0o077)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.execvpe(argv[0], argv, env)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        os.write(problem, "cannot start {}: {}".format(argv[0], reason).encode("utf-8", "replace"))
    finally:
        os._exit(NOT_STARTED)


def say(**answer: Any) -> None:
    """Send an answer; a launcher that is gone is noticed by the end of standard input."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(answer).encode() + b"\n")


def main() -> None:
    """Run as the keeper that the arguments describe: the launcher's pid, and whether the user is only for jobs."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # the end of the launcher's group is not this process's end
    Keeper(int(sys.argv[-3]), sys.argv[-2] == "1").run()


if __name__ == "__main__":
    main()
