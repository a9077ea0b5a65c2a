"""A home of a rehearsal: emulated Macs, a controller, a gateway and ranks on them, and the end of all of it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.cli.core.client import ask
from reconciler.cli.core.environment import OWN_COMMAND, own_environment
from reconciler.errors import Invalid, Unreachable
from reconciler.wire.answers import A, Asks

COMMAND_SECONDS = 120.0
END_SECONDS = 60.0
IDENTITY = {
    "GIT_AUTHOR_NAME": "rehearsal",
    "GIT_AUTHOR_EMAIL": "rehearsal@localhost",
    "GIT_COMMITTER_NAME": "rehearsal",
    "GIT_COMMITTER_EMAIL": "rehearsal@localhost",
}
FILE = "manifests.yaml"
LAST_WORDS_CHARACTERS = 1000


@dataclass
class Home:
    """The home. All of it is in one folder, which is removed at the end."""

    folder: Path
    up: subprocess.Popen[bytes] | None = None
    machines: bool = False
    """True if emulated Macs may be running."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "h"

    @property
    def log(self) -> Path:
        return self.folder / "up.log"

    @property
    def models(self) -> Path:
        return self.folder / "models"

    def ask(self, message: Asks[A]) -> A:
        return ask(self.home / "controller.sock", message)

    def run(self, *words: str) -> str:
        """Run a command of `reconciler` for this home; return its output. Raises ``Invalid`` with its error."""
        return self._out((*self._command, *words))

    def git(self, *words: str) -> str:
        """Run git in the clone of the cluster repository; return its output and errors."""
        return self._out(("git", "-C", str(self.folder / "clone"), *words), both=True)

    def start_machines(self, manifests: str) -> dict[str, Any]:
        """Start emulated Macs for manifests; return the access to each, as in its Node's spec."""
        folder = self.folder / "machines"
        folder.mkdir()
        (folder / FILE).write_text(manifests, encoding="utf-8")
        self.machines = True
        self.run("sandbox", "up", "-f", str(folder), "--models", str(self.models), "--addressed", "--detach")
        from reconciler.source.files import read_directory
        from reconciler.source.yaml.documents import load

        written = load(read_directory(self.home / "sandbox" / "cluster"))
        nodes = (each.manifest for each in written if each.manifest.kind == "Node")
        plain = (each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in nodes)
        return {
            each["metadata"]["name"]: {name: each["spec"][name] for name in ("ssh", "python")}
            for each in plain
        }

    def start(self, manifests: str) -> None:
        folder = self.folder / "base"
        folder.mkdir()
        (folder / FILE).write_text(manifests, encoding="utf-8")
        with self.log.open("wb") as log:
            self.up = subprocess.Popen(
                (*self._command, "up", "-f", str(folder), "--any-port"),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environ, start_new_session=True,
            )  # fmt: skip

    def push(self, manifests: str) -> tuple[str, str]:
        """Replace all manifests with a push; return the commit and the push's output. Raises ``Invalid`` if refused."""
        clone = self.folder / "clone"
        if not clone.exists():
            self._out(("git", "clone", "-q", str(self.home / "cluster.git"), str(clone)))
        for path in clone.rglob("*.yaml"):
            path.unlink()
        (clone / FILE).write_text(manifests, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "Rehearse a change")
        said = self.git("push", "-q", "origin", "HEAD:main")
        return self.git("rev-parse", "HEAD").strip(), said

    def last_words(self) -> str:
        """Return the end of `up`'s output."""
        with suppress(OSError):
            return self.log.read_text(errors="replace", encoding="utf-8")[-LAST_WORDS_CHARACTERS:].strip()
        return ""

    def check(self) -> None:
        """Raise ``Unreachable`` if the cluster has ended by itself."""
        if self.up is not None and self.up.poll() is not None:
            raise Unreachable(f"the rehearsed cluster ended: {self.last_words()}")

    def end(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.up.wait(END_SECONDS)
        if self.machines:
            with suppress(Invalid):
                self.run("sandbox", "down")
        if self.up is not None and self.up.poll() is None:
            self.up.kill()
            self.up.wait(END_SECONDS)

    @property
    def _command(self) -> tuple[str, ...]:
        return (*OWN_COMMAND, "--home", str(self.home))

    @property
    def _environ(self) -> dict[str, str]:
        variables = own_environment(self.home, str(self.home / "sandbox" / "controller"))
        return {name: value for name, value in variables.items() if not name.startswith("GIT_")} | IDENTITY

    def _out(self, command: Sequence[str], both: bool = False) -> str:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", timeout=COMMAND_SECONDS,
                env=self._environ, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{' '.join(command[:6])} took longer than {COMMAND_SECONDS:.0f} s") from None
        if done.returncode:
            raise Invalid((done.stderr or done.stdout).strip() or f"exit status {done.returncode}")
        return done.stdout + (done.stderr if both else "")


def put_models(folder: Path, tiny: Path, models: Mapping[str, int]) -> None:
    """Make folders of weights from the tiny model's files. ``models``: the longest context, in tokens, by folder."""
    for name, context in models.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for path in tiny.iterdir():
            if path.name == "config.json":
                config = {**json.loads(path.read_text(encoding="utf-8")), "max_position_embeddings": context}
                (folder / name / path.name).write_text(json.dumps(config), encoding="utf-8")
            elif not (folder / name / path.name).exists():
                (folder / name / path.name).symlink_to(path.resolve())


@contextmanager
def rehearsal_home() -> Iterator[Home]:
    """Make a home in a folder with a short path, because of its sockets; remove it at the end of the block in any case."""
    home = Home(Path(tempfile.mkdtemp(prefix="rh-", dir="/tmp")))
    try:
        yield home
    finally:
        try:
            home.end()
        finally:
            shutil.rmtree(home.folder, ignore_errors=True)
