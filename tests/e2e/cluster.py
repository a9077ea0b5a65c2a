"""A whole cluster for end-to-end tests: `reconciler up` as a user starts it, real ranks, real weights.

Everything is reached from outside: the command line, git, the endpoint, signals.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from prometheus_client.parser import text_string_to_metric_families

from reconciler.cli.core.app import reconciler
from reconciler.cli.core.client import ask
from reconciler.errors import ReconcilerError
from reconciler.source.git.repository import EMPTY
from reconciler.wire.admin import ShowStatus
from tests.processes import parent_of

ROOT = Path(__file__).parents[2]
READY_SECONDS = 120.0
STDOUT_LOCK = threading.Lock()
"""Standard output is one for all threads of a test."""

HEADER = "# yaml-language-server: $schema=../schemas/manifest.json\n"


def node(name: str) -> str:
    return f"apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata:\n  name: {name}\nspec:\n  local: {{}}\n"


def gateway_with_keys(listen: str) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: Gateway
metadata:
  name: main
spec:
  auth:
    mode: keys
  listen: {listen}
"""


def deployment(name: str, nodes: int, replicas: int = 1, context: int = 2048, batch: int = 16) -> str:
    return f"""apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata:
  name: {name}
spec:
  model: tiny
  replicas: {replicas}
  parallelism:
    strategy: tensor
    nodes: {nodes}
  serving:
    context: {context}
    maxBatch: {batch}
"""


MODEL = """apiVersion: reconciler/v1alpha1
kind: Model
metadata:
  name: tiny
spec:
  source:
    path: tiny
"""


@dataclass
class Cluster:
    """One home with everything that runs for it."""

    home: Path
    source: Path = ROOT
    """Where the package is that runs."""
    environment: dict[str, str] = field(default_factory=dict)
    """Beside what the tests have."""
    unread: tuple[str, ...] = ("",)
    """Revisions in which nothing is wished for yet."""
    up: subprocess.Popen[bytes] | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.home.parent / "up.log"

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    # --- the command line ----------------------------------------------------------------------

    def run(
        self, *arguments: str, check: bool = True, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command for the home that the environment names, with its output."""
        command = [sys.executable, "-m", "reconciler", *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=cwd or self.source,
            env={**self.environ, "RECONCILER_HOME": str(self.home)},
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{arguments} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def background(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that takes its time; its output is at its end."""
        command = [sys.executable, "-m", "reconciler", "--home", str(self.home), *arguments]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.source,
            env=self.environ,
        )

    def ask(self, *arguments: str) -> str:
        """What a command prints.

        It is run in this process: whoever waits asks often, and must not keep a core from what is waited for.
        """
        with STDOUT_LOCK, contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                reconciler.main(["--home", str(self.home), *arguments], standalone_mode=False)
            except click.ClickException as error:
                raise AssertionError(f"{arguments} failed: {error.format_message()}") from error
        return printed.getvalue()

    def json(self, *arguments: str) -> Any:
        """What a command prints with `-o json`, asked as ``ask`` does."""
        return json.loads(self.ask(*arguments, "-o", "json"))

    def ranks(self) -> list[dict[str, Any]]:
        return list(self.json("get", "ranks")["items"])

    def events(self) -> list[dict[str, Any]]:
        return list(self.json("events")["items"])

    def last_event(self) -> int:
        return max((event["id"] for event in self.events()), default=0)

    def plan(self) -> dict[str, Any]:
        return dict(self.json("plan"))

    def deployments(self) -> dict[str, dict[str, Any]]:
        items = self.json("get", "modeldeployments")["items"]
        return {item["metadata"]["name"]: item["status"] for item in items}

    def endpoint(self) -> str:
        """The base URL for clients."""
        return str(self.json("get", "gateways")["items"][0]["status"]["endpoint"])

    def metrics(self) -> dict[str, float]:
        """The endpoint's metrics, each summed over its labels."""
        url = self.endpoint().removesuffix("/v1") + "/metrics"
        with urllib.request.urlopen(url, timeout=30) as page:
            families = list(text_string_to_metric_families(page.read().decode()))
        sums: dict[str, float] = {}
        for one in (sample for family in families for sample in family.samples):
            sums[one.name] = sums.get(one.name, 0.0) + one.value
        return sums

    # --- waiting -------------------------------------------------------------------------------

    def wait(
        self, what: str, true: Callable[[], object], seconds: float = READY_SECONDS, pause: float = 0.2
    ) -> float:
        """Wait until something holds; how long it took. Fails with the story so far."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            with suppress(
                AssertionError, ReconcilerError, KeyError, IndexError, ValueError
            ):  # also of how many there are
                if true():
                    return time.monotonic() - started
            time.sleep(pause)
        raise AssertionError(f"waited {seconds:.0f} s in vain for: {what}\n{self.diagnostics()}")

    def diagnostics(self) -> str:
        parts = [self.run("events", check=False).stdout[-6000:], self.run("plan", check=False).stdout]
        parts.append(self.log.read_text(errors="replace")[-3000:] if self.log.exists() else "")
        return "\n".join(parts)

    def settled(self) -> bool:
        """Every wish is served, and planning again finds nothing to do and nothing to wait for."""
        if (
            ask(self.home / "controller.sock", ShowStatus())["revision"] in self.unread
        ):  # first: the rest is as new
            return False
        ready = all(
            status["replicas"] == status["readyReplicas"]
            and all(c["status"] == "True" for c in status["conditions"] if c["type"] == "Ready")
            for status in self.deployments().values()
        )
        plan = self.plan()
        plan["waiting"] = [w for w in plan["waiting"] if w["reason"] != "QuietMoment"]  # to become better
        return ready and plan == {"steps": [], "waiting": [], "refused": []}

    def wait_settled(self, seconds: float = READY_SECONDS) -> float:
        return self.wait("the cluster to settle", self.settled, seconds)

    # --- processes -----------------------------------------------------------------------------

    def start(self, *arguments: str, console: bool = False) -> None:
        """`reconciler up` in the background. Manifests are committed while the controller starts."""
        arguments = (*arguments, *(() if console else ("--no-console",)))
        self.unread = ("", EMPTY) if "-f" in arguments else ("",)
        command = [sys.executable, "-m", "reconciler", "--home", str(self.home), "up", *arguments]
        with self.log.open("ab") as log:
            self.up = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.source, env=self.environ
            )

    def stop(self) -> int:
        """Ctrl-C; the exit status of `up`."""
        assert self.up is not None
        self.up.send_signal(signal.SIGINT)
        return self.up.wait(READY_SECONDS)

    def processes(self) -> dict[int, str]:
        """Command lines of all processes that belong to this home, by pid."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (folder / "environ").read_bytes().decode(errors="replace")
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
                mine = str(self.home) in words or str(self.home) in environment
                if mine and state != "Z" and int(folder.name) != os.getpid():
                    found[int(folder.name)] = words
        return found

    def wait_ended(self) -> None:
        """Until nothing runs: who was told to end by who is gone is on its way."""
        self.wait("the end of everything", lambda: not self.processes())

    def pids(self, words: str) -> list[int]:
        """Processes of this home whose command line has these words.

        A child that has not become another program yet has its parent's, and is not counted.
        """
        every = self.processes()
        found = {pid for pid, line in every.items() if words in line}
        return sorted(pid for pid in found if every[pid] != every.get(parent_of(pid)))

    def files(self) -> list[Path]:
        """All that is in the home, where some comes and goes."""
        return [Path(folder) / name for folder, _, names in os.walk(self.home) for name in names]

    def controller(self) -> list[int]:
        return [pid for pid in self.pids(" controller") if pid != (self.up.pid if self.up else 0)]

    def gateway(self) -> list[int]:
        return [pid for pid in self.pids(" gateway") if pid != (self.up.pid if self.up else 0)]

    def agents(self) -> list[int]:
        return self.pids(".pyz serve")

    def kill_everything(self) -> None:
        """The end of a test, whatever state it left: nothing of this home stays."""
        for _ in range(20):
            found = self.processes()
            if not found:
                return
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster in a folder of its own, short because of the sockets; nothing of it outlives the block."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    made = Cluster(folder / "home")
    try:
        yield made
    finally:
        if made.up is not None and made.up.poll() is None:
            made.up.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                made.up.wait(30)
        made.kill_everything()
        if made.up is not None:
            made.up.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def quickstart(console: bool = False) -> Iterator[Cluster]:
    """The quickstart's cluster, up and settled."""
    with cluster() as made:
        made.start("-f", "manifests", "--models", "examples/models", "--any-port", console=console)
        made.wait_settled()
        yield made
