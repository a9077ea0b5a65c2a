"""A Mac with one service of launchd, whose time is a number: it carries out what the product plans, and people meddle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from reconciler.remote.bootstrap.actions import Action, Build, Write
from reconciler.remote.bootstrap.survey import Survey
from reconciler.sandbox.world.launchd import NEVER, Flaw, Job, Service, State, step
from reconciler.service_managers.definitions import Keeper, definition_path
from reconciler.wire.node import HeldBy

from . import scripts

HOME = PurePosixPath("/u/ada")
TOOLS = {tool: tool for tool in ("sudo", "install", "launchctl", "rm")}
STOP_SECONDS = 4.0
READABLE = 0o044


class LeftError(Exception):
    """A command that nobody waits for any more."""


class LockedError(Exception):
    """The disk waits for its password, and no command runs."""


@dataclass(frozen=True)
class Process:
    """What the service is to keep running."""

    pid: int
    held_by: str
    runs: str
    """The content of the script that has started it, or would have."""


class Mac:
    def __init__(self, name: str, script: PurePosixPath, sudo: bool) -> None:
        self.now = 1000.0
        self.sudo = sudo
        self.path = definition_path(Keeper.LAUNCHD, HOME, name)
        self.script_path = script
        self.service = Service(name)
        self.definition: str | None = None
        self.loaded = ""
        """The definition that launchd has read."""
        self.files: dict[str, str] = {}
        self.readable = True
        self.process: Process | None = None
        self.allowed = True
        self.filevault = False
        self.locked = False
        self.umask = 0o022
        """Of the person who pastes."""
        self._deaf = False
        self._idle = False
        self.meddle: Callable[[], None] = lambda: None
        """Called before each command that is typed, and each call of a tool within a script."""
        self._job: Job | None = None
        self._pids = 100

    # --- what is there ---

    @property
    def script(self) -> str | None:
        return self.files.get(str(self.script_path))

    def survey(self) -> Survey:
        self._check()
        service = self.service.at(self.now)
        by_service = self.process is not None and self.process.held_by == HeldBy.LAUNCHD
        return Survey(
            keeper=Keeper.LAUNCHD,
            tools=TOOLS,
            administrator="sudo" if self.sudo else "",
            definition=self.definition if self.readable else "\n" * (self.definition is not None) or None,
            draft=next((text for path, text in self.files.items() if path.endswith(".plist")), None),
            loaded=service.state != State.ABSENT,
            at_boot=not (service.disabled or service.flaw in (Flaw.OWNER, Flaw.MODE)),
            pid=self.process.pid if self.process and by_service else 0,
            script=self.script,
            agent=self.process.pid if self.process else 0,
        )

    # --- time ---

    def wait(self, seconds: float) -> None:
        """Let time pass, in which launchd starts what is due."""
        until = self.now + seconds
        while not self.locked:
            stops = self.service.state == State.STOPPING
            due = self.service.gone_at if stops else self._job.start_at if self._job else NEVER
            if due > until:
                break
            self.now = max(self.now, due)
            self._tick()
        self.now = until

    def _tick(self) -> None:
        if self.service.at(self.now) != self.service:
            self.service = self.service.at(self.now)
            self._end(HeldBy.LAUNCHD)
        if self._job is None:
            return
        self._job = self._job.at(self.now)
        if self._job.running and not (self.process and self.process.held_by == HeldBy.LAUNCHD):
            if (
                self.script is None or self.process is not None
            ):  # there is nothing to run, or another one serves
                self._job = self._job.ended(self.now, self.script is not None)
            else:
                self.begin(HeldBy.LAUNCHD, self.script)

    def begin(self, held_by: str, runs: str) -> None:
        self._check()
        self._pids += 1
        self.process = Process(self._pids, held_by, runs)

    def _end(self, *held_by: str) -> None:
        if self.process and (not held_by or self.process.held_by in held_by):
            if self.process.held_by == HeldBy.LAUNCHD and self._job:
                self._job = self._job.ended(self.now, self.script is not None)
            self.process = None

    # --- what happens to it ---

    def crash(self) -> None:
        self._end()

    def put(self, path: str, text: str) -> None:
        appears = path == str(self.script_path) and self.script is None
        self.files[path] = text
        if appears and self._job and not self._deaf:
            self._job = self._job.noticed(self.now)
        self._deaf = self._deaf and not appears

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def define(self, text: str | None, flaw: Flaw = Flaw.NONE) -> None:
        self.definition = text
        self.service = replace(self.service, path=str(self.path) if text is not None else "", flaw=flaw)

    def spoil(self, flaw: Flaw) -> None:
        if self.definition is not None:
            self.define(self.definition, flaw)

    def hide(self) -> None:
        """Keep the definition from being read by others than root."""
        self.readable = False

    def miss_script(self) -> None:
        """Have launchd not notice that the script appears, once."""
        self._deaf = True

    def start_nothing(self) -> None:
        """Have launchd start nothing when it loads the service after a ``bootstrap``, once."""
        self._idle = True

    def switch(self, allowed: bool, at_once: bool) -> None:
        """Have a person switch it off or on under "Allow in the Background", now or for the next boot."""
        self.allowed = allowed
        if at_once and not self.locked:
            self.launchctl("bootstrap" if allowed else "bootout")

    def reboot(self) -> None:
        self.process, self._job, self.locked = None, None, self.filevault
        self.service = replace(self.service, state=State.ABSENT)
        self.now += 60
        if not self.locked:
            self._boot()

    def unlock(self) -> None:
        self.locked = False
        self._boot()

    def _boot(self) -> None:
        self.service = self.service.after_boot(self.allowed)
        if self.service.state == State.LOADED:
            self._load(self.now)
        self.wait(0)

    def _load(self, start_at: float) -> None:
        self.loaded, self._job = self.definition or "", Job(start_at)

    # --- its tools ---

    def _check(self) -> None:
        if self.locked:
            raise LockedError

    def launchctl(self, verb: str) -> int:
        self.wait(0)
        before = self.service
        self.service, status = step(before, verb, self.now, STOP_SECONDS, self.allowed)
        if self.service.state != State.LOADED:
            self._job = None
        elif before.state != State.LOADED:
            self._load(NEVER if self._idle else self.now)
            self._idle = False
        elif verb == "kickstart" and self._job:
            self._job = self._job.kicked(self.now)
        self.wait(0)
        return status

    def _answer(self, call: list[str]) -> tuple[int, str]:
        self.meddle()
        self._check()
        match call:
            case ["sleep", seconds]:
                self.wait(int(seconds))
                return 0, ""
            case ["kill", "-TERM", pid] if self.process and str(self.process.pid) == pid:
                self._end()
                return 0, ""
            case ["kill", _, _]:
                return 1, "no such process"
            case ["launchctl", "bootstrap", "system", path]:
                assert path == str(self.path)
            case ["launchctl", _, label]:
                assert label == f"system/{self.service.label}"
            case _:
                raise AssertionError(call)
        status = self.launchctl(call[1])
        return status, f"{call[1]} failed: {status}" if status else ""

    def carry_out(self, action: Action) -> str:
        """Carry out an action; what it says if it fails."""
        self.meddle()
        self._check()
        self.wait(1)
        act = action.act
        assert not isinstance(act, Build)
        if isinstance(act, Write):
            self.put(str(act.path), act.content.decode())
            return ""
        words = [word for word in act.argv if word not in ("sudo", "-n")]
        match words:
            case ["/bin/sh", *_]:
                status, said = scripts.run(act.argv, self._answer)
                return said or f"exit status {status}" if status else ""
            case ["launchctl", verb, _]:
                status = self.launchctl(verb)
                return f"{verb} failed: {status}" if status else ""
            case ["install", "-o", "root", "-g", "wheel", "-m", "644", draft, path]:
                self._system(path)
                self.define(self.files[draft])
                self.readable = True
            case ["tee", path]:
                self._system(path)
                if self.definition is None:
                    self.readable = not self.umask & READABLE
                flaw = self.service.flaw
                self.define(act.content, Flaw.NONE if flaw == Flaw.SYNTAX else flaw)
            case ["chown" | "chmod", _, _] if self.definition is None:
                return "No such file or directory"
            case ["chown", "root:wheel", path]:
                self._system(path)
                owned = self.service.flaw == Flaw.OWNER
                self.service = replace(self.service, flaw=Flaw.NONE if owned else self.service.flaw)
            case ["chmod", "644", path]:
                self._system(path)
                self.readable = True
                open_ = self.service.flaw == Flaw.MODE
                self.service = replace(self.service, flaw=Flaw.NONE if open_ else self.service.flaw)
            case ["rm", "-f", path] if path == str(self.path):
                self.define(None)
            case ["rm", "-f", path]:
                self.remove(path)
            case _:
                raise AssertionError(words)
        return ""

    def _system(self, path: str) -> None:
        assert path == str(self.path)
