"""A cluster repo in a home of its own, and people who push to it with their own git."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.source.git import hooks
from reconciler.source.git.repository import Author, ClusterRepo

AUTHOR = Author("Ada", "ada@example.org")
NODE = """\
apiVersion: reconciler/v1alpha1
kind: Node
metadata:
  name: a
spec:
  local: {}
"""


@dataclass(frozen=True)
class Person:
    """Somebody with a clone."""

    clone: Path

    def git(self, *arguments: str) -> tuple[int, str]:
        """Exit status and everything printed."""
        process = subprocess.run(
            ["git", *arguments],
            cwd=self.clone,
            env={**os.environ, "LC_ALL": "C", "HOME": str(self.clone.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return process.returncode, process.stdout

    def commits(self, text: str, file: str = "a.yaml") -> None:
        (self.clone / file).parent.mkdir(parents=True, exist_ok=True)
        (self.clone / file).write_text(text)
        self.git("add", "--all")
        status, output = self.git("commit", "--quiet", "--message", f"change {file}")
        assert status == 0, output

    def pushes(self, *arguments: str) -> tuple[int, list[str]]:
        """Exit status, and what the hooks said."""
        status, output = self.git("push", *(arguments or ("origin", "HEAD:main")))
        remote = [
            line.removeprefix("remote: ").rstrip() for line in output.splitlines() if "remote: " in line
        ]
        return status, [line for line in remote if "[remote rejected]" not in line]


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path, for the controller's socket is in it."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def repo(home: Path) -> ClusterRepo:
    return ClusterRepo.create(home / "cluster.git", hooks.command())


def clone(repo: ClusterRepo, name: str, beside: Path | None = None) -> Person:
    folder = (beside or repo.path.parent) / name
    subprocess.run(
        ["git", "clone", "--quiet", repo.path, folder], check=True, capture_output=True, timeout=60
    )
    person = Person(folder)
    person.git("config", "user.name", name)
    person.git("config", "user.email", f"{name}@example.org")
    person.git("checkout", "--quiet", "-B", "main")
    return person


@contextmanager
def clone_of(path: Path) -> Iterator[Person]:
    """Somebody with a clone of any repository, for a while."""
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        yield clone(ClusterRepo(path), "ada", Path(folder))


@pytest.fixture
def person(repo: ClusterRepo) -> Person:
    return clone(repo, "ada")
