"""The files of an emulated machine: its root, its user's folder, its tools, its Python, its keys.

===============================  =========================================================================
below ``machines/NAME``
===============================  =========================================================================
``machine.json``                 its SSH port
``usr/bin``                      its tools, which ask the sandbox
``usr/bin/emulated``             for the tools: the machine's name and the control socket, a line each
``opt/python``                   the interpreter of its ranks: this one, with additions for emulation
``etc/ssh``                      its host key, which stays
``Library/LaunchDaemons``        the definitions of its services
``Users/ada``                    its user's folder, the ``HOME`` of its processes
===============================  =========================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import asyncssh

import reconciler
from reconciler.wire.paths import agent_socket

from . import client
from .tools.system import DAEMONS
from .tools.table import TOOLS

USER = "ada"
PASSWORD = "lovelace"
"""The password of that user, and of the disk of a machine with FileVault."""
MARK = "emulated"
"""File next to the tools that marks them as emulated; the same name as ``agent.system.EMULATED``."""
SHIM = Path(__file__).parent / "emulated"
PACKAGE = "emulated_mac"
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Place:
    """One machine's folder."""

    name: str
    root: Path

    @property
    def home(self) -> Path:
        return self.root / "Users" / USER

    @property
    def tools(self) -> Path:
        return self.root / "usr" / "bin"

    @property
    def python(self) -> Path:
        return self.root / "opt" / "python" / "bin" / "python3"

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.root / "opt" / "python" / "lib" / version / "site-packages"

    @property
    def authorized(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"

    @property
    def host_key(self) -> Path:
        return self.root / "etc" / "ssh" / "ssh_host_ed25519_key"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of processes started over SSH."""
        return {
            "HOME": str(self.home), "USER": USER, "LOGNAME": USER, "SHELL": "/bin/sh", "PWD": str(self.home),
            "PATH": f"{self.tools}:{_SYSTEM_PATH}", "TMPDIR": str(self.root / "tmp"),
        }  # fmt: skip

    def check(self) -> None:
        """Raise ``ValueError`` if paths of sockets would be too long."""
        agent_socket(str(self.home / ".reconciler" / "run"), self.name)

    def port(self) -> int:
        """Return the last port of its SSH server; 0 if there was none."""
        try:
            return int(json.loads((self.root / "machine.json").read_text(encoding="utf-8"))["port"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def write_settings(self, control: Path, port: int) -> None:
        """Write the addresses of the sandbox and of SSH, for the tools and the Python."""
        put_shim(self.packages, self.name, control)
        (self.tools / MARK).write_text(f"{self.name}\n{control}\n", encoding="utf-8")
        (self.root / "machine.json").write_text(json.dumps({"port": port}) + "\n", encoding="utf-8")

    def create(self, key: asyncssh.SSHKey, models: Path | None) -> None:
        """Create everything; ``key`` may log in. The user's files stay."""
        for folder in (
            self.home / ".ssh",
            self.home / ".reconciler",
            self.tools,
            self.host_key.parent,
            self.root / DAEMONS.strip("/"),
            self.root / "tmp",
        ):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_tools()
        self._make_python()
        if not self.host_key.exists():
            _write_key(self.host_key)
        self.authorized.write_bytes(key.export_public_key())
        self.authorized.chmod(0o600)
        if models is not None:
            self._link_models(models)

    def _make_tools(self) -> None:
        text = f"#!{_interpreter()} -IS\n" + Path(client.__file__).read_text(encoding="utf-8")
        for name in TOOLS:
            tool = self.tools / name
            tool.write_text(text, encoding="utf-8")
            tool.chmod(0o755)

    def _make_python(self) -> None:
        shutil.rmtree(self.root / "opt", ignore_errors=True)
        self.packages.mkdir(parents=True)
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(_interpreter())
        home = Path(_interpreter()).resolve().parent
        (self.root / "opt/python/pyvenv.cfg").write_text(
            f"home = {home}\ninclude-system-site-packages = false\n", encoding="utf-8"
        )
        (self.packages / "host.pth").write_text(
            "".join(f"{path}\n" for path in _packages()), encoding="utf-8"
        )

    def _link_models(self, models: Path) -> None:
        target = self.home / ".reconciler" / "models"
        target.mkdir(mode=0o700, exist_ok=True)
        for folder in sorted(models.iterdir()):
            link = target / folder.name
            if (folder / "config.json").is_file() and not link.exists():
                link.symlink_to(folder.absolute())


def _interpreter() -> str:
    """Return the interpreter outside of any virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _packages() -> list[str]:
    """Return the folders of this process's packages, and of the reconciler itself."""
    found = [
        path for path in sys.path if path.endswith(("site-packages", "dist-packages")) and Path(path).is_dir()
    ]
    return [str(Path(reconciler.__file__).parents[1]), *found]


def key(path: Path) -> asyncssh.SSHKey:
    """Return the private key at ``path``, and create it if missing."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_key(path)
    return asyncssh.read_private_key(path)


def _write_key(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(asyncssh.generate_private_key("ssh-ed25519", comment="emulated").export_private_key())


def host_key_line(path: Path) -> str:
    """Return the public half for a Node."""
    return " ".join(asyncssh.read_private_key(path).export_public_key().decode("ascii").split()[:2])


# --- its Python ---


def put_shim(packages: Path, machine: str, control: Path) -> None:
    """Make every process of the Python with these site-packages believe that it runs on that machine (``emulated``)."""
    target = packages / PACKAGE
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(SHIM, target, ignore=shutil.ignore_patterns("__pycache__"))
    config = {"machine": machine, "control": str(control)}
    (packages / f"{PACKAGE}.json").write_text(json.dumps(config), encoding="utf-8")
    (packages / f"{PACKAGE}.pth").write_text(f"import {PACKAGE}; {PACKAGE}.begin()\n", encoding="utf-8")


def put_idleness(packages: Path, seconds: float) -> None:
    """Make the agent of that machine believe that its ranks have been idle for ``seconds``."""
    (packages / f"{PACKAGE}.idle").write_text(f"{seconds:g}\n", encoding="utf-8")
