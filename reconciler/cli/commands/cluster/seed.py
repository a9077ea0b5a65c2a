"""Fills a new home for `up`: manifests into an empty repository, and missing model folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reconciler.cli.core.commits import change
from reconciler.cli.output import table_layout
from reconciler.errors import Invalid
from reconciler.source.editing import apply_documents
from reconciler.source.git.repository import ClusterRepo


def seed_manifests(
    repo: ClusterRepo, documents: tuple[Any, ...], named: str, say: Callable[[str], None]
) -> str | None:
    """Commit manifests to an empty cluster repository; one with commits is left unchanged. Return its revision.

    ``named``: their place, in a form to type.
    """
    head = repo.head()
    if head is not None:
        say(
            f"{repo.path} already has commits and is used as it is; to change it: reconciler apply -f {named}"
        )
        return head
    landed = change(repo, lambda files: apply_documents(files, documents), lambda _: "Start the cluster")
    objects = "1 object" if len(landed.results) == 1 else f"{len(landed.results)} objects"
    say(f"{objects} committed to {repo.path} as {(landed.revision or '')[:10]}")
    return landed.revision


def seed_models(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Copy model folders (those with a ``config.json``) that the model directory lacks, each completely or not at all."""
    if not source.is_dir():
        raise Invalid(f"{source} is not a folder; --models needs one that contains folders of weights")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in sorted(source.iterdir()):
        if not (folder / "config.json").is_file() or (target / folder.name).exists():
            continue
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        say(f"copying model {folder.name} ({table_layout.size(size)}) into {target}")
        draft = target / f".{folder.name}.partial"  # only one `up` runs at a time, so nobody else writes it
        shutil.rmtree(draft, ignore_errors=True)
        try:
            shutil.copytree(folder, draft)
        except (OSError, shutil.Error) as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise Invalid(f"model {folder.name} could not be copied into {target}: {error}") from error
        draft.rename(target / folder.name)
