"""A scripted controller behind a real socket, and the command line as a function."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.core.app import Settings, run
from reconciler.cli.core.commits import change, prepare
from reconciler.cli.core.given import load_paths
from reconciler.errors import Refused
from reconciler.remote.rpc import RpcServer
from reconciler.source.editing import apply_documents
from reconciler.wire.admin import CONTROLLER_RECEIVES_FROM_CLI, Answer

from . import bodies

GOLDEN = Path(__file__).parent / "golden"
MANIFESTS = str(Path(__file__).parents[2] / "manifests")


@pytest.fixture
def home() -> Iterator[Path]:
    """A reconciler's home with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    yield folder / "home"
    shutil.rmtree(folder)


def start_cluster(home: Path, manifests: str = MANIFESTS) -> str:
    """Commit manifests, by default those of the quickstart, to the cluster repository of a home; return the commit."""
    incoming = load_paths((manifests,))
    edit = partial(apply_documents, incoming=incoming)
    return change(prepare(Settings(home)), edit, lambda _: "Start the cluster").revision or ""


@dataclass
class Result:
    """What a command left: exit status, standard output, standard error."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Cli:
    """`RECONCILER_HOME=HOME reconciler ARGUMENTS`, run in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return called(home, monkeypatch, capsys)


def called(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line of a home as a function."""

    def call(*arguments: str, stdin: str = "") -> Result:
        monkeypatch.setenv("RECONCILER_HOME", str(home))
        monkeypatch.setattr(sys, "argv", ["reconciler", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Result(code, captured.out, captured.err)

    return call


@dataclass
class Controller:
    """Answers every request with the body that ``answers`` has for its type; keeps what it heard."""

    answers: dict[str, Any]
    received: list[Any] = field(default_factory=list)

    async def dispatch(self, message: Any) -> Answer:
        self.received.append(message)
        body = self.answers[message.TYPE]
        body = body(message) if callable(body) else body
        if isinstance(body, Refused):
            raise body
        return Answer(body)


@contextmanager
def listening(home: Path) -> Iterator[Controller]:
    """A controller of a small cluster that is at rest, listening in ``home``."""
    scripted = Controller(bodies.at_rest())
    loop = asyncio.new_event_loop()
    server = RpcServer(home / "controller.sock", CONTROLLER_RECEIVES_FROM_CLI, scripted.dispatch)
    loop.run_until_complete(server.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield scripted
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def controller(home: Path) -> Iterator[Controller]:
    """The same in the home of the command line."""
    home.mkdir()
    with listening(home) as scripted:
        yield scripted


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare with a file of ``golden/``; UPDATE_GOLDEN=1 writes it anew."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text()

    return compare
