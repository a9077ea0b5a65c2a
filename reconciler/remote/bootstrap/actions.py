"""Plans the actions on a machine that let its agent be kept running there, one command or file at a time. Pure.

``actions`` returns all of them beforehand, empty if everything is in place. ``undo_actions`` returns those that undo
them, and ``notes`` lists facts that only a person can change.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from reconciler.hardening import sudoers
from reconciler.planning.diagnosis.rules import RECOVERY
from reconciler.service_managers import launchd, unmanaged
from reconciler.service_managers.definitions import Keeper, definition_path

from . import rights
from .profile import Profile
from .rights import Rights
from .service import definition, node_folder, script, script_path, service_name
from .survey import Survey

RDMA_MACOS = (26, 2)
"""The first version of macOS with RDMA over Thunderbolt (Apple TN3205)."""
DEFINED = {
    Keeper.LAUNCHD: "a LaunchDaemon: it may use the local network and the whole GPU, and starts again after a restart",
    Keeper.SYSTEMD: "a service: it starts again after a restart",
}


OTHER_SYNTAX = ("fish", "csh", "tcsh", "nu", "xonsh", "elvish", "pwsh")
"""Names of login shells that cannot read text for ``sh``."""
_REMOVE = ("/bin/rm", "-f")
_END = "END-OF-FILE"
"""The line after content that a person pastes."""


@dataclass(frozen=True, slots=True)
class Write:
    """A file of the user's, to be written atomically."""

    path: PurePosixPath
    content: bytes
    mode: int = 0o600
    shown: str = ""
    """Content that a person should read beforehand."""

    def __str__(self) -> str:
        return f"write {self.path} (mode {self.mode:04o}, {len(self.content)} bytes)"


@dataclass(frozen=True, slots=True)
class Run:
    """A command, to be run as the user, or by a person."""

    argv: tuple[str, ...]
    content: str = ""
    """Content that a person pastes as its standard input: nobody can change it between printing and pasting."""

    def __str__(self) -> str:
        given = f" <<'{_END}'\n{self.content}{_END}" if self.content else ""
        return f"$ {shlex.join(self.argv)}{given}"


@dataclass(frozen=True, slots=True)
class Build:
    """A managed runtime, to be sent in parts and put together, unless it is there."""

    path: PurePosixPath

    def __str__(self) -> str:
        return f"build {self.path}"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do on a machine."""

    why: str
    act: Write | Run | Build
    by_person: bool = False
    """True if it needs an administrator's password: then it is shown, to be pasted into a terminal of the machine."""


@dataclass(frozen=True, slots=True)
class Note:
    """A fact that a person should know and may want to change."""

    text: str
    command: str = ""
    """Command to paste into a terminal of the machine; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Place:
    """The needed and the existing files on a machine, apart from the service."""

    node: str
    found: Profile
    """The machine once the runtime is there."""
    runtime: PurePosixPath | None
    """The managed runtime that must still be built; None if none is missing."""
    serve: tuple[str, ...]
    """The command of the agent, without the option that says what holds it."""
    agent: Write
    """The agent's file."""
    agent_there: bool
    authorized: Write
    """``authorized_keys``, with the line that lets the gateway reach ranks."""
    admitted: bool
    """True if that line is already in it."""


def actions(seen: Survey, place: Place) -> tuple[Action, ...]:
    """Return all actions, in order; empty if everything is in place."""
    return (*_runtime(place), *_agent_file(place), *_gateway(place), *_service(place.found, seen, place))


def undo_actions(found: Profile, seen: Survey, node: str) -> tuple[Action, ...]:
    """Return all actions that remove the service, in order; empty if there is none.

    Its agent ends, and ranks continue. The controller itself removes the files that it installs for every Node.
    """
    service = _Service(found, seen, node)
    actions = [*service.unload(), *service.forget()]
    if any(measure.by_person for measure in actions):
        return tuple(actions)  # the service needs the rest while it exists
    if seen.script is not None:
        actions.append(
            Action("remove the script that started the agent", Run((*_REMOVE, str(script_path(found, node)))))
        )
    if seen.draft is not None:
        draft = node_folder(found, node) / service.path.name
        actions.append(Action("remove the draft of the service", Run((*_REMOVE, str(draft)))))
    return tuple(actions)


def owned(by: Callable[..., Action], keeper: Keeper, path: str) -> Sequence[Action]:
    """Return the actions, made with ``by``, that let root alone change a definition and everybody read it.

    launchd takes no other. A file that a person wrote may be different: it keeps its owner and its mode, or has the mode
    of their shell (``umask``).
    """
    group = "wheel" if keeper is Keeper.LAUNCHD else "root"
    return (
        by("let root alone change it", "chown", f"root:{group}", path),
        by("let everybody read it", "chmod", "644", path),
    )


def start(found: Profile, seen: Survey, node: str) -> Action:
    """Start the agent through an installed service."""
    return _Service(found, seen, node).start()


def _runtime(place: Place) -> Sequence[Action]:
    if place.runtime is None:
        return ()
    why = "install the runtime of the ranks: Python, mlx and mlx-lm, from parts that the controller sends"
    return (Action(why, Build(place.runtime)),)


def _agent_file(place: Place) -> Sequence[Action]:
    if place.agent_there:
        return ()
    path = str(place.agent.path)
    return (
        Action(
            "install the agent: one file, named by its digest; running agents and shims continue", place.agent
        ),
        Action("check that it runs with this Python", Run((place.found.python, "-I", path, "--help"))),
    )


def _gateway(place: Place) -> Sequence[Action]:
    if place.admitted:
        return ()
    return (
        Action(
            "allow the gateway's own key to reach the sockets of ranks, and nothing else", place.authorized
        ),
    )


def _service(found: Profile, seen: Survey, place: Place) -> Sequence[Action]:
    """Return the actions that let the machine keep the agent running, also after a restart."""
    if seen.keeper is Keeper.NOTHING:
        return ()
    service = _Service(found, seen, place.node)
    wanted = script(seen.keeper, found, place.node, place.serve)
    actions: list[Action] = []
    if seen.script != wanted:
        why = "write the script that starts the agent: an update changes only this file, without an administrator"
        actions.append(Action(why, Write(script_path(found, place.node), wanted.encode(), shown=wanted)))
    installing = service.install(definition(seen.keeper, found, place.node))
    actions += installing
    if seen.agent and seen.agent != seen.pid:
        why = "end the agent that runs without the service, which starts its own; ranks continue"
        by_person = any(each.by_person for each in installing)
        actions.append(Action(why, Run(unmanaged.end(seen.agent)), by_person))
    if not installing and not seen.pid:
        actions.append(service.start())
    return actions


@dataclass(frozen=True, slots=True)
class _Service:
    """The service of one node on one machine."""

    found: Profile
    seen: Survey
    node: str

    @property
    def name(self) -> str:
        return service_name(self.found.user, self.node)

    @property
    def path(self) -> PurePosixPath:
        return definition_path(self.seen.keeper, self.found.home, self.name)

    def install(self, content: str) -> Sequence[Action]:
        """Return the actions that make the service manager use this definition; empty if it does.

        launchd unloads the service before its definition changes: after an interruption it never keeps an earlier one.
        It gets the definition again if it does not have the service, or not after the next boot: owner or mode may be why.
        """
        changed = self.seen.definition != content
        if self.seen.loaded and self.seen.at_boot and not changed:
            return ()
        if self.seen.keeper is Keeper.LAUNCHD:
            return (
                *self._unload("unload the service; its agent ends, ranks continue"),
                *self._define(content),
                self._load(),
            )
        return (*(self._define(content) if changed else ()), self._load())

    def _define(self, content: str) -> Sequence[Action]:
        if self.seen.keeper is Keeper.SYSTEMD_OF_USER:
            what = Action(
                "write the service, which starts again after a restart",
                Write(self.path, content.encode(), 0o644, content),
            )
            return (what, *self._reload())
        if not self.seen.administrator:
            write = Action(
                f"install {DEFINED[self.seen.keeper]}",
                Run(("sudo", "tee", str(self.path)), content),
                by_person=True,
            )
            return (write, *owned(self._by, self.seen.keeper, str(self.path)), *self._reload())
        draft = str(node_folder(self.found, self.node) / self.path.name)
        group = "wheel" if self.seen.keeper is Keeper.LAUNCHD else "root"
        words = ("-o", "root", "-g", group, "-m", "644", draft, str(self.path))
        actions = [self._by("install it in the system", "install", *words)]
        if self.seen.draft != content:
            put = Write(PurePosixPath(draft), content.encode(), 0o644, content)
            actions.insert(0, Action(DEFINED[self.seen.keeper], put))
        return (*actions, *self._reload())

    def _reload(self) -> Sequence[Action]:
        if self.seen.keeper is Keeper.LAUNCHD:
            return ()
        return (self._by("let systemd read it", "systemctl", "daemon-reload"),)

    def _load(self) -> Action:
        why = "start the agent now and at every boot"
        if self.seen.keeper is Keeper.LAUNCHD:
            return self._action(why, launchd.load(self._as_root("launchctl"), self.name, str(self.path)))
        unit = f"{self.name}.service"
        if self.seen.loaded:
            return self._by("restart the service; ranks continue", "systemctl", "restart", unit)
        return self._by(why, "systemctl", "enable", "--now", unit)

    def unload(self) -> Sequence[Action]:
        """Return the actions that unload the service; empty if it is not loaded."""
        return self._unload("stop the service, now and at every boot; its agent ends, ranks continue")

    def _unload(self, why: str) -> Sequence[Action]:
        if not self.seen.loaded:
            return ()
        if self.seen.keeper is Keeper.LAUNCHD:
            return (self._action(why, launchd.unload(self._as_root("launchctl"), self.name)),)
        return (self._by(why, "systemctl", "disable", "--now", f"{self.name}.service"),)

    def forget(self) -> Sequence[Action]:
        """Return the actions that remove the definition; empty if there is none."""
        if self.seen.definition is None:
            return ()
        actions = [self._by("remove the service", "rm", "-f", str(self.path))]
        if self.seen.keeper is not Keeper.LAUNCHD:
            actions.append(self._by("let systemd forget it", "systemctl", "daemon-reload"))
        return actions

    def start(self) -> Action:
        """Return the action that starts the agent."""
        why = "start the agent, because the service runs none"
        if self.seen.keeper is Keeper.LAUNCHD:
            return self._by(why, "launchctl", "kickstart", f"system/{self.name}")
        return self._by(why, "systemctl", "start", f"{self.name}.service")

    def _by(self, why: str, tool: str, *words: str) -> Action:
        return self._action(why, (*self._as_root(tool), *words))

    def _action(self, why: str, argv: tuple[str, ...]) -> Action:
        by_person = not self.seen.administrator and self.seen.keeper is not Keeper.SYSTEMD_OF_USER
        return Action(why, Run(argv), by_person)

    def _as_root(self, tool: str) -> tuple[str, ...]:
        """Return the words before the arguments of a tool of the service manager, as root if needed: from here if
        possible, else by a person. That person's own shell finds the tool, because the ``PATH`` of the machine's user
        must not decide what an administrator runs."""
        path = self.seen.tools.get(tool, tool)
        if self.seen.keeper is Keeper.SYSTEMD_OF_USER:
            return ("/usr/bin/env", f"XDG_RUNTIME_DIR=/run/user/{self.found.uid}", path, "--user")
        if self.seen.administrator == "root":
            return (path,)
        if self.seen.administrator == "sudo":
            return (self.seen.tools.get("sudo", "sudo"), "-n", path)
        return ("sudo", tool)


# --- for a person ----------------------------------------------------------------------------------


def notes(found: Profile, seen: Survey, node: str, allowed: Rights | None = None) -> tuple[Note, ...]:
    """Return notes about the machine for a person, the most important first. ``allowed``: the rights that sudo gives;
    None if the needed ones are unknown."""
    of_mac = _of_mac(seen, node) if found.system == "Darwin" else ()
    return (*_of_shell(found, seen), *_of_keeper(found, seen), *of_mac, *_of_sudo(found, seen, allowed))


def _of_shell(found: Profile, seen: Survey) -> Sequence[Note]:
    """Return a note on pasting commands if the login shell has no here-documents like ``sh``."""
    if seen.administrator or PurePosixPath(found.login_shell).name not in OTHER_SYNTAX:
        return ()
    return (
        Note(
            f"{found.login_shell}, the login shell there, reads commands differently: type this before you paste any",
            "sh",
        ),
    )


def _of_sudo(found: Profile, seen: Survey, allowed: Rights | None) -> Sequence[Note]:
    """Return notes on rights that sudo lacks, or gives but should not; nothing for a user who may do everything."""
    if seen.administrator:
        return ()
    if allowed is None:
        text = "what sudo should allow there follows from the Node, its Fabrics and the machine: start `reconciler up`"
        return (Note(f"{text}, then run this again"),) if found.system == "Darwin" else ()
    wrong = tuple(rights.texts(found.user, allowed))
    wanted = rights.lines(found.user, allowed)
    if not (allowed.refused or allowed.excess or allowed.jobs_refused) or not wanted:
        return tuple(Note(text) for text in wrong)
    put = f"put these lines there, in place of all in it, with: sudo visudo -f {sudoers.FILE}"
    return (Note("; ".join((*wrong, put)), "\n     ".join(wanted)),)


def _of_keeper(found: Profile, seen: Survey) -> Sequence[Note]:
    if seen.keeper is Keeper.NOTHING:
        text = (
            "there is no systemd: the controller starts the agent as a plain process. After a restart of the"
            " machine it runs again only once the controller has logged in"
        )
        return (Note(text),)
    if seen.administrator or seen.keeper is Keeper.SYSTEMD_OF_USER:
        return ()
    if seen.keeper is Keeper.LAUNCHD:
        text = (
            f"{found.user} has no sudo without a password: until an administrator installs the service, the agent depends"
            " on the controller's SSH session. Without that, new ranks may not reach the local network, and after"
            " a restart nothing runs until the controller logs in"
        )
        return () if seen.loaded else (Note(text),)
    text = f"{found.user} has no sudo without a password; this lets systemd run the agent without an administrator"
    return () if seen.loaded else (Note(text, f"sudo loginctl enable-linger {shlex.quote(found.user)}"),)


def _of_mac(seen: Survey, node: str) -> Sequence[Note]:
    notes = []
    version = tuple(int(part) for part in seen.mac_facts.get("macos", "").split(".") if part.isdigit())
    if version and version < RDMA_MACOS:
        text = f"macOS {seen.mac_facts['macos']} has no RDMA over Thunderbolt: update to 26.2 or newer"
        notes.append(Note(text, "sudo softwareupdate --list"))
    elif seen.mac_facts.get("rdma", "").lower() == "disabled":
        notes.append(
            Note(
                f"RDMA is disabled, which only a person at the machine can change: {RECOVERY.format(node=node)}"
            )
        )
    if re.match(r"FileVault is On\b", seen.mac_facts.get("filevault", "")):
        text = (
            "FileVault is on: after a restart nothing runs until a person unlocks the disk: at the screen, or from macOS 26"
            " on with its user's password over ssh"
        )
        notes.append(Note(text, "sudo fdesetup authrestart"))
    if seen.mac_facts.get("sleep", "0") != "0":
        notes.append(Note("the Mac goes to sleep, and then every group on it fails", "sudo pmset -c sleep 0"))
    if seen.mac_facts.get("autorestart", "1") == "0":
        text = "after a power failure the Mac stays off"
        notes.append(Note(text, "sudo pmset -c autorestart 1"))
    return notes
