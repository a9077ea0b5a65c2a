"""A secret is where its client is, and nowhere else."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.wire.keys import PREFIX, SECRET_PATTERN, hash_of, looks_mistyped, secret_of
from tests.e2e.cluster import gateway_with_keys
from tests.ports import free_port
from tests.processes import listed

WAIT_SECONDS = 60


def test_a_secret_has_a_form_that_scanners_find_and_typing_errors_break() -> None:
    secret = secret_of(bytes(range(32)))
    assert re.findall(SECRET_PATTERN, f"key={secret};") == [secret]
    assert not looks_mistyped(secret)
    for at in range(len(PREFIX), len(secret)):
        other = "a" if secret[at] != "a" else "b"
        assert looks_mistyped(secret[:at] + other + secret[at + 1 :])
    assert looks_mistyped(secret[:-1])
    assert not looks_mistyped("sk-of-another-product")
    assert len({secret_of(bytes([number] * 32)) for number in range(256)}) == 256


# --- where it is not ---------------------------------------------------------------------------------


class Cluster:
    """A controller and a gateway as processes of their own, in a home, with all their output in files."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.said = folder / "said"
        self.said.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self._command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        with (self.said / "errors").open("a") as file:
            file.write(done.stderr)
        return done

    def start(self, *arguments: str) -> None:
        with (self.said / arguments[0]).open("wb") as file:
            self._running.append(subprocess.Popen(self._command(*arguments), stdout=file, stderr=file))

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(WAIT_SECONDS)

    def status(self, secret: str, path: str = "/v1/models") -> int:
        """The status of an answer; 0 while nobody answers."""
        request = urllib.request.Request(self.url + path, headers={"authorization": f"Bearer {secret}"})
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def until(self, secret: str, status: int) -> float:
        """How many seconds it took until a secret gets this status."""
        began = time.monotonic()
        while self.status(secret) != status:
            assert time.monotonic() < began + WAIT_SECONDS
            time.sleep(0.01)
        return time.monotonic() - began

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """All files of the home and all output, all objects of the repository, and the list of all processes."""
        for folder in (self.home, self.said):
            for path in folder.rglob("*"):
                if path.is_file():
                    yield str(path), path.read_bytes()
        repository = [
            "git",
            "-C",
            str(self.home / "cluster.git"),
            "cat-file",
            "--batch",
            "--batch-all-objects",
        ]
        yield "objects of the repository", subprocess.run(repository, capture_output=True, check=True).stdout
        yield "processes", "\n".join(process.command for process in listed()).encode()

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "reconciler", "--home", str(self.home), *arguments]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without machines whose endpoint asks for keys."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    made = Cluster(folder)
    made.run("apply", "-f", "-", stdin=gateway_with_keys(made.url.removeprefix("http://")))
    made.start("controller")
    made.start("gateway")
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


@pytest.mark.second_tier
@pytest.mark.timeout(180)
def test_a_secret_is_in_no_file_no_commit_no_log_and_no_process_list(cluster: Cluster) -> None:
    """Keys are made, used, mistyped, rotated and revoked. Then all that is left is searched for their secrets."""
    first = cluster.run("key", "create", "webui", "--metrics").stdout.strip()
    cluster.until(first, 200)
    assert cluster.status(first[:-1]) == 401
    assert cluster.status(first, "/metrics") == 200
    second = cluster.run("key", "rotate", "webui").stdout.strip()
    cluster.until(second, 200)
    assert cluster.status(first) == 200
    during = dict(cluster.everything())
    cluster.run("key", "revoke", "webui")
    assert cluster.until(second, 401) < 1
    assert cluster.status(first) == 401
    cluster.run("get", "apikeys", "-o", "json")
    cluster.stop()
    after = dict(cluster.everything())
    for secret in (first, second):
        known = [where for where, content in after.items() if hash_of(secret).encode() in content]
        assert "objects of the repository" in known
        for found in (during, after):
            assert [where for where, content in found.items() if secret[:-6].encode() in content] == []
