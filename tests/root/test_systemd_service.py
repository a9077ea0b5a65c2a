"""The product as a service of a real systemd, which boots twice: installed, upgraded and put back under load, and removed.

The systemd is a user's. It runs in namespaces of its own, where it can write to one folder alone.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.core.shipped import SHIPPED
from tests import wheels

from . import systemd

pytestmark = [pytest.mark.timeout(400), pytest.mark.nightly, pytest.mark.needs("systemd", "ip")]

START_SECONDS = 60.0
CLIENTS = """
import http.client, json, pathlib, sys, threading, time
end, whole, cut, refused, lock, last, longest = pathlib.Path(sys.argv[1]), 0, 0, 0, threading.Lock(), time.monotonic(), 0.0
body = json.dumps({"model": "tiny", "stream": True, "max_tokens": 200, "messages": [{"role": "user", "content": "Tell me."}]})
def ask():
    global whole, cut, refused, last, longest
    while not end.exists():
        connection = http.client.HTTPConnection("127.0.0.1", 8400, timeout=60)
        try:
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
        except OSError:
            with lock: refused += 1
            time.sleep(0.05)
            continue
        try:
            text = answer.read()
        except (OSError, http.client.HTTPException):
            text = b""
        with lock:
            good = answer.status == 200 and text.endswith(b"data: [DONE]\\n\\n")
            whole, cut = whole + good, cut + (answer.status == 200 and not good)
            if good: longest, last = max(longest, time.monotonic() - last), time.monotonic()
threads = [threading.Thread(target=ask) for _ in range(4)]
[each.start() for each in threads]; [each.join() for each in threads]
print(json.dumps({"whole": whole, "cut": cut, "refused": refused, "longest": longest}))
"""


@pytest.fixture(scope="module")
def folder_of_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the product and of what it needs."""
    return wheels.of_this_version(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def short() -> Iterator[Path]:
    """An empty folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="i-") as made:
        yield Path(made)


class Installed:
    """A home on a machine with systemd, and the command that installs it there."""

    def __init__(self, machine: systemd.UserManager, command: Path, wheels_folder: Path) -> None:
        self._machine, self._command, self._wheels = machine, command, wheels_folder
        self.home = machine.folder / "h"

    def run(self, *words: str | Path) -> str:
        environment = {
            "UV_FIND_LINKS": str(self._wheels),
            "UV_OFFLINE": "1",
            "UV_CACHE_DIR": str(self._machine.folder / "tmp" / "uv"),
        }
        return self._machine.run(self._command, "--home", self.home, *words, environment=environment)

    def ranks(self) -> list[tuple[str, int]]:
        items = json.loads(self.run("get", "ranks", "-o", "json"))["items"]
        return sorted((rank["metadata"]["name"], rank["pid"]) for rank in items)

    def version(self) -> str | None:
        """Of the controller that runs, without what tells builds apart; None if none does."""
        version: str | None = json.loads(self.run("version", "-o", "json"))["controller"]
        return version and version.partition("+")[0]

    def until_serving(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.version() is None:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        self.run("wait", "deployment/tiny", "--for=condition=Ready", "--timeout=60s")

    @contextmanager
    def load(self) -> Iterator[dict[str, Any]]:
        """Four clients that ask for one long answer after the other; what has become of them, at the end."""
        end, found = self._machine.folder / "tmp" / "end", dict[str, Any]()
        program = (self._command.with_name("python"), "-c", CLIENTS, str(end))
        clients = subprocess.Popen(
            self._machine.command(program, {}), stdout=subprocess.PIPE, text=True, cwd=self._machine.folder
        )
        try:
            yield found
        finally:
            end.touch()
            told, _ = clients.communicate(timeout=60)
            end.unlink()
        found |= json.loads(told)


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


@pytest.fixture
def newer(folder_of_wheels: Path, tmp_path: Path) -> Path:
    """The wheel of the next version."""
    return wheels.build(folder_of_wheels, wheels.tree_of_version(tmp_path / "newer", "0.2.0"))


def test_a_service_survives_upgrade_rollback_and_restart_and_leaves_nothing(
    folder_of_wheels: Path, newer: Path, short: Path
) -> None:
    (wheel,) = folder_of_wheels.glob("mlx_reconciler-0.1.0+*.whl")
    requirement = f"mlx-reconciler[runtime] @ {wheel.as_uri()}"
    command = wheels.environment_with(short / "env", requirement, folder_of_wheels)
    with systemd.user_manager(short) as machine:
        before = files(short / "home")
        here = Installed(machine, command, folder_of_wheels)
        here.run("apply", "-f", SHIPPED / "manifests")
        shutil.copytree(SHIPPED / "models", here.home / "models", dirs_exist_ok=True)
        print(here.run("install", "--user", "--yes"))
        here.until_serving()
        ranks = here.ranks()
        assert (len(ranks), here.version()) == (2, "0.1.0")

        with here.load() as upgraded:
            here.run("upgrade", "--from", newer)
        assert (here.ranks(), here.version()) == (ranks, "0.2.0")
        with here.load() as rolled_back:
            here.run("rollback")
        assert (here.ranks(), here.version()) == (ranks, "0.1.0")
        for seen in (upgraded, rolled_back):
            print(seen)
            assert (seen["cut"], seen["refused"]) == (0, 0)
            assert seen["whole"] > 0
    with systemd.user_manager(short) as machine:
        here = Installed(machine, command, folder_of_wheels)
        here.until_serving()
        assert [name for name, _ in here.ranks()] == ["tiny.0.2.0", "tiny.0.2.1"]
        print(here.run("uninstall", "--user", "--purge", "--yes"))
        assert not here.home.exists()
        assert files(short / "home") == before
