"""Reads the parts of a push other than its manifests: sizes, links, and messages of its commits."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reconciler.errors import Refused, few_names
from reconciler.source.yaml.pieces import FILE_BYTES_MAX
from reconciler.source.yaml.syntax_errors import clip

from .output import Entry, changes_of, links_in, sizes_in
from .repository import REF, ClusterRepo, mirror_text

SHOWN = 10
TOO_LARGE = f"files of more than {FILE_BYTES_MAX} bytes are not taken: the history would keep them for ever"
TAKE_OUT = """\
Weights are not committed: a Model names them. To take a file out of the last commit:
  git rm --cached FILE && git commit --amend --no-edit
out of earlier ones: git rebase --interactive origin/main"""
_QUARANTINE = re.compile(r"(tmp_objdir-)?incoming-[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Push:
    """The move of a branch from one commit to another, as git passes it to a hook."""

    old: str
    new: str
    ref: str

    @property
    def branch(self) -> str:
        return self.ref.removeprefix("refs/heads/")


@dataclass(frozen=True, slots=True)
class Brought:
    """The contents of a push, as far as git knows them."""

    allowed: frozenset[str]
    """The words by which its commits allow removals and jobs (``Changes.words``)."""
    listing: bytes
    """The files of the new commit, for ``ClusterRepo.read``."""


def quarantined(repo: ClusterRepo, name: str) -> ClusterRepo:
    """Return the repository with the pushed objects in folder ``name`` of its objects, where git keeps them until they
    are accepted; an empty name stands for none. Raises ``Refused`` for any other folder."""
    if not name:
        return repo
    objects = repo.path.absolute() / "objects"
    folder = objects / name
    if not _QUARANTINE.fullmatch(name) or folder.is_symlink() or not folder.is_dir():
        raise Refused("NotFound", f"{clip(name)} is no folder of pushed objects in {repo.path}")
    return ClusterRepo(
        repo.path,
        {
            "GIT_QUARANTINE_PATH": str(folder),
            "GIT_OBJECT_DIRECTORY": str(folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
        },
    )


def examine(repo: ClusterRepo, push: Push) -> Brought:
    """Read the pushed commits.

    Raises ``Refused`` if the push drops history or brings a link, a submodule or a file that is too large, and if
    ``main`` is a mirror.
    """
    if push.ref == REF and (url := repo.mirrored()):
        raise Refused("Mirrored", mirror_text(url))
    if not push.new.strip("0"):
        raise Refused(
            "Deleted", f"{push.branch} cannot be deleted: it is part of the desired state of the cluster"
        )
    log = changes_of(repo.changes(push.old, push.new))
    if push.old.strip("0") and push.new != push.old and push.old not in log.parents:
        raise Refused(
            "Dropped",
            f"this push would drop commits from {push.branch}, whose history is kept. "
            f"Pull and merge first, or go back with git revert",
        )
    _refuse_large(repo, log.entries)
    listing = repo.tree(push.new, push.ref)
    _refuse_links({entry.path for entry in log.entries} & links_in(listing))
    return Brought(frozenset(log.words), listing)


def refuse_in_listing(listing: bytes) -> None:
    """Raise ``Refused`` for links, submodules, and files that are too large, whatever their source."""
    _refuse_links(links_in(listing))
    large = sorted(sizes_in(listing, FILE_BYTES_MAX).items())
    if large:
        raise Refused("TooLarge", _too_large(large))


def _refuse_links(paths: Collection[str]) -> None:
    if paths:
        raise Refused(
            "Linked",
            f"{few_names([clip(path) for path in sorted(paths)], SHOWN)}: links and submodules are not followed; "
            "commit the file itself",
        )


def _refuse_large(repo: ClusterRepo, entries: tuple[Entry, ...]) -> None:
    """Refuse every pushed file beyond ``FILE_BYTES_MAX``, also one that a later commit removes: it would stay in the
    history."""
    paths = {entry.blob: entry.path for entry in entries if entry.blob}
    sizes = repo.sizes(tuple(paths))
    large = sorted((paths[blob], size) for blob, size in sizes.items() if size > FILE_BYTES_MAX)
    if large:
        raise Refused("TooLarge", "\n".join((_too_large(large), TAKE_OUT)))


def _too_large(large: Sequence[tuple[str, int]]) -> str:
    listed = [f"  {clip(path)}: {size} bytes" for path, size in large[:SHOWN]]
    if len(large) > SHOWN:
        listed.append(f"  and {len(large) - SHOWN} more")
    return "\n".join((TOO_LARGE, *listed))
