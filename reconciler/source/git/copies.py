"""A local copy of a cluster repository on another machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.errors import Conflict, Invalid, Refused, Unreachable

from .layout import init_bare
from .output import hook_words
from .process import PUSH_TIMEOUT_SECONDS, git_process, run_git
from .repository import BRANCH, SETTINGS, ClusterRepo

REFS = ("+refs/heads/*:refs/heads/*", f"+{SETTINGS}*:{SETTINGS}*")


@dataclass(frozen=True, slots=True)
class Copy(ClusterRepo):
    """A local copy of the repository at ``url``. Commits made here are pushed there, through the hooks there.

    ``environment`` has the variables that git needs to reach it. ``told`` gets the output of the hooks there.
    """

    url: str = ""
    told: Callable[[str], None] = print

    def fetch(self) -> None:
        """Make the copy equal. Raises ``Unreachable`` if the other side does not answer, or has no repository there."""
        if not (self.path / "HEAD").exists():
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            init_bare(self.path, BRANCH)
        arguments = ("fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", self.url, *REFS)
        try:
            run_git(
                self._located(arguments), environment=self.environment, timeout_seconds=PUSH_TIMEOUT_SECONDS
            )
        except Invalid as error:
            raise Unreachable(f"cannot read {self.url}: {error}") from error
        self.adopt()

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return whether ``newer`` is a descendant of ``older``, after fetching new commits from there."""
        try:
            return ClusterRepo.is_ancestor(self, older, newer)
        except Invalid:
            self.fetch()
            return ClusterRepo.is_ancestor(self, older, newer)

    def _land(self, base: str | None, revision: str, ref: str) -> None:
        arguments = ("push", "--porcelain", "--no-follow-tags", self.url, f"{revision}:{ref}")
        process = git_process(self._located(arguments), b"", self.environment, PUSH_TIMEOUT_SECONDS)
        said = process.stderr.decode("utf-8", "replace")
        self.fetch()
        if self.head(ref) == revision:
            if "remote:" in said:
                self.told(hook_words(said))
            return
        if self.head(ref) != base:
            raise Conflict(
                "somebody else has changed the cluster repository meanwhile: check the change, then try again"
            )
        raise Refused("Rejected", hook_words(said))
