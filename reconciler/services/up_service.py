"""The service that keeps `reconciler up` of one home running. Pure.

As for agents (``remote/bootstrap/service.py``), it runs a script of the user's, and keeps running as long as the script
exists. So another version needs a changed link, the end of `up`, and only the user's rights. Only creating the service
takes an administrator. The script waits while a command replaces the version.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.remote.bootstrap.actions import Action, Run, Write, owned
from reconciler.service_managers import launchd, unmanaged
from reconciler.service_managers.definitions import Keeper, definition_path, plist, unit

STOP_SECONDS = 30
"""`up` waits 15 s for the gateway, which waits 10 s for answers."""
_PATH = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
"""Folders with git: a service does not have the ``PATH`` of a login."""
_SCRIPT = """\
#!/bin/sh
# Runs the cluster of {home}; written by `reconciler install`, run by {name}.
export HOME={user_home} LC_ALL=C PATH={path}
if [ -r {environment} ]; then set -a; . {environment}; set +a; fi
while pid=$(cat {switching} 2>/dev/null) && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
version=$(cd {current} && pwd -P) || exit 1
exec "$version/bin/python" -P -m reconciler --home {home} up 2> {words}
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of this machine and its user that a service depends on."""

    user: str
    uid: int
    user_home: PurePosixPath
    keeper: Keeper
    administrator: str = ""
    """The way to act as root: ``root`` itself, or ``sudo`` without a password; empty if neither is possible."""


@dataclass(frozen=True, slots=True)
class UpService:
    """The service of one home."""

    home: Path
    machine: Machine

    @property
    def name(self) -> str:
        """Return its name for launchd and systemd, unique for each user and home."""
        own = self.home == Path(self.machine.user_home, ".reconciler")
        other = "" if own else f"-{hashlib.sha256(str(self.home).encode()).hexdigest()[:8]}"
        return f"reconciler.up.{self.machine.user}{other}"

    @property
    def folder(self) -> Path:
        return self.home / "service"

    @property
    def script(self) -> Path:
        """Return the path of the script, which exists as long as `up` should run."""
        return self.folder / "serve"

    @property
    def words(self) -> Path:
        """Return the path of the last error output of `up`."""
        return self.folder / "serve.log"

    @property
    def definition(self) -> PurePosixPath:
        """Return the path of the definition for the service manager."""
        return definition_path(self.machine.keeper, self.machine.user_home, self.name)

    def script_text(self) -> str:
        """Return the content of ``script``."""
        versions = self.home / "versions"
        return _SCRIPT.format(
            name=self.name,
            home=shlex.quote(str(self.home)),
            user_home=shlex.quote(str(self.machine.user_home)),
            path=_PATH,
            environment=shlex.quote(str(self.folder / "environment")),
            switching=shlex.quote(str(versions / "switching")),
            current=shlex.quote(str(versions / "current")),
            words=shlex.quote(str(self.words)),
        )

    def definition_text(self) -> str:
        """Return the content of ``definition``."""
        if self.machine.keeper is Keeper.LAUNCHD:
            return plist(self.name, self.machine.user, str(self.script))
        owner = self.machine.user if self.machine.keeper is Keeper.SYSTEMD else ""
        return unit(f"reconciler up for {self.home}", owner, str(self.script), STOP_SECONDS)

    def loaded_question(self) -> tuple[str, ...]:
        """Return the command that ends with 0 if the service manager has the service now and after the next boot."""
        if self.machine.keeper is Keeper.LAUNCHD:
            return launchd.loaded(self.name, str(self.definition))
        of_user = ("--user",) if self.machine.keeper is Keeper.SYSTEMD_OF_USER else ()
        return ("systemctl", *of_user, "is-enabled", "--quiet", f"{self.name}.service")

    def install_actions(
        self, script: str | None, definition: str | None, running: int, loaded: bool
    ) -> Sequence[Action]:
        """Return the actions that create the service, in order; empty if all is in place.

        ``script``, ``definition``: the present contents. ``running``: the pid of the `up` that runs, or 0. ``loaded``: the
        answer to ``loaded_question``. On a Mac as for agents: see ``remote/bootstrap/actions.py``.
        """
        on_mac = self.machine.keeper is Keeper.LAUNCHD
        actions = []
        if script != self.script_text():
            text = self.script_text()
            write = Write(PurePosixPath(self.script), text.encode(), 0o700, text)
            actions.append(
                Action("write the script that the service runs, for as long as it is there", write)
            )
        if definition == self.definition_text() and loaded:
            return actions if running else [*actions, self._start()]
        if on_mac and definition is not None:
            actions.append(self._unload())
        actions += self._define()
        if running:
            why = (
                "end the `up` that runs without the service; ranks continue, and the service takes them over"
            )
            actions.append(self._action(why, unmanaged.end(running)))
        if on_mac:
            load = launchd.load(self._as_root("launchctl"), self.name, str(self.definition))
        else:
            actions.append(self._by("let systemd read it", "systemctl", "daemon-reload"))
            load = (*self._as_root("systemctl"), "enable", "--now", f"{self.name}.service")
        actions.append(self._action("start `up` now and at every boot", load))
        return actions

    def _start(self) -> Action:
        why = "start `up`, because the service runs none"
        if self.machine.keeper is Keeper.LAUNCHD:
            return self._by(why, "launchctl", "kickstart", f"system/{self.name}")
        return self._by(why, "systemctl", "start", f"{self.name}.service")

    def _unload(self) -> Action:
        return self._action("unload the service", launchd.unload(self._as_root("launchctl"), self.name))

    def remove_actions(self, definition: str | None) -> Sequence[Action]:
        """Return the actions that remove the definition from the service manager, in order; empty if there is none."""
        if definition is None:
            return ()
        if self.machine.keeper is Keeper.LAUNCHD:
            return (
                self._unload(),
                self._by("remove its definition", "rm", "-f", str(self.definition)),
            )
        return (
            self._by(
                "stop the service, now and at every boot",
                "systemctl",
                "disable",
                "--now",
                f"{self.name}.service",
            ),
            self._by("remove its definition", "rm", "-f", str(self.definition)),
            self._by("let systemd forget it", "systemctl", "daemon-reload"),
        )

    def _define(self) -> Sequence[Action]:
        text = self.definition_text()
        if self.machine.keeper is Keeper.SYSTEMD_OF_USER:
            why = "write the service of your own systemd"
            return (Action(why, Write(self.definition, text.encode(), 0o644, text)),)
        why = "define the service, which starts again after a restart of the machine"
        if self.machine.administrator == "root":
            return (Action(why, Write(self.definition, text.encode(), 0o644, text)),)
        write = self._action(why, (*self._as_root("tee"), str(self.definition)), text)
        return (write, *owned(self._by, self.machine.keeper, str(self.definition)))

    def _by(self, why: str, tool: str, *words: str) -> Action:
        return self._action(why, (*self._as_root(tool), *words))

    def _action(self, why: str, argv: tuple[str, ...], content: str = "") -> Action:
        by_person = not self.machine.administrator and self.machine.keeper is not Keeper.SYSTEMD_OF_USER
        return Action(why, Run(argv, content), by_person)

    def _as_root(self, tool: str) -> tuple[str, ...]:
        if self.machine.keeper is Keeper.SYSTEMD_OF_USER:
            return (tool, "--user") if tool == "systemctl" else (tool,)
        return {"root": (tool,), "sudo": ("sudo", "-n", tool)}.get(self.machine.administrator, ("sudo", tool))
