"""Writes the cluster repository to one file, and makes a repository from such a file."""

from __future__ import annotations

from pathlib import Path

from reconciler.errors import Invalid

from . import hooks
from .process import run_git
from .repository import REF, ClusterRepo


def write_bundle(repo: Path, bundle: Path) -> str | None:
    """Write all refs with their objects. Return the head of ``main``.

    Returns None and writes no file for a repository without commits. Raises ``Invalid`` and ``Unreachable``.
    """
    if not (repo / "HEAD").exists():
        return None
    git = ("-C", str(repo))
    if not run_git((*git, "for-each-ref", "--count=1")).strip():
        return None
    run_git((*git, "bundle", "create", "--quiet", str(bundle), "--all"))
    heads = run_git((*git, "bundle", "list-heads", str(bundle), REF)).decode().split()
    return heads[0] if heads else None


def read_bundle(bundle: Path | None, repo: Path) -> ClusterRepo:
    """Make a repository with all refs of a bundle and the settings among them, and check that no object is missing or
    damaged. Raises ``Invalid``."""
    made = ClusterRepo.create(repo, hooks.command())
    if bundle is not None:
        try:
            run_git(
                ("-C", str(repo), "fetch", "--quiet", "--no-write-fetch-head", str(bundle), "+refs/*:refs/*")
            )
        except Invalid as error:
            raise Invalid(f"its {bundle.name} cannot be read: {error}") from error
        made.adopt()
    return made
