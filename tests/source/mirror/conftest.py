"""A remote repository with a person who pushes to it, and a home that follows it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Conflict
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.mirror.looking import Look, Remote
from reconciler.source.pushed import read_fetched
from tests.source.conftest import Person


def judged(repo: ClusterRepo, old: str | None, new: str) -> str:
    """Judge what was fetched, without a controller."""
    read_fetched(repo, old, new)
    return ""


@dataclass
class Home:
    """What follows: each look knows the one before."""

    repo: ClusterRepo
    body: dict[str, Any]
    """The spec as it is written."""
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    last: Look | None = None
    deposed: bool = False
    bytes_max: int = 64 * 1024 * 1024

    def look(self, at_once: bool = True) -> Look:
        remote = Remote(
            self.repo,
            judged,
            self._verify,
            self.environ,
            self.bytes_max,
        )
        spec = GitRepositorySpec.model_validate(self.body, by_alias=True)
        remote.configure(spec)
        self.last = remote.look(spec, self.last, at_once)
        return self.last

    def _verify(self) -> None:
        if self.deposed:
            raise Conflict("another controller has taken over")

    @property
    def head(self) -> str | None:
        return self.repo.head()

    def has(self, commit: str) -> bool:
        """Whether a commit's objects are in the home."""
        asked = subprocess.run(
            ["git", f"--git-dir={self.repo.path}", "cat-file", "-e", commit], capture_output=True
        )
        return asked.returncode == 0

    def left(self) -> list[str]:
        """What is in the home beside its repository."""
        return sorted(path.name for path in self.repo.path.parent.glob("incoming-*"))


def made_remote(folder: Path) -> Person:
    """A bare repository at ``folder``, and somebody who works with it."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", folder], check=True)
    copy = folder.with_name("work")
    subprocess.run(["git", "clone", "--quiet", folder, copy], check=True, capture_output=True)
    person = Person(copy)
    for name, value in (("user.name", "bea"), ("user.email", "bea@example.org")):
        person.git("config", name, value)
    person.git("checkout", "--quiet", "-B", "main")
    return person


def pushed(person: Person, text: str, file: str = "a.yaml", *, force: bool = False) -> str:
    """Commit a file, push it, and return the commit."""
    person.commits(text, file)
    return sent(person, force=force)


def sent(person: Person, *, force: bool = False) -> str:
    status, output = person.git("push", "--quiet", *(["--force"] if force else []), "origin", "HEAD:main")
    assert status == 0, output
    return person.git("rev-parse", "HEAD")[1].strip()


@pytest.fixture
def remote(tmp_path: Path) -> Person:
    return made_remote(tmp_path / "remote.git")


@pytest.fixture
def follower(repo: ClusterRepo, tmp_path: Path) -> Home:
    return Home(repo, {"url": str(tmp_path / "remote.git")})
