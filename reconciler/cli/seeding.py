"""What `up` puts into a home that lacks it: manifests into an empty repository, model folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from reconciler.errors import Invalid

from .app import Settings
from .write import commit_paths, prepare


def seed_manifests(settings: Settings, paths: tuple[str, ...], say: Callable[[str], None]) -> None:
    """Commit manifests to an empty cluster repository; one with commits is the truth, and is left alone."""
    repo = prepare(settings)
    if not paths:
        return
    if repo.head() is not None:
        say(
            f"{repo.path} has commits already and is what counts; to change it: reconciler apply -f {paths[0]}"
        )
        return
    revision, results = commit_paths(repo, paths, "Start the cluster", dry_run=False)
    say(f"{len(results)} objects committed to {repo.path} as {(revision or '')[:10]}")


def seed_models(source: Path, target: Path, say: Callable[[str], None]) -> None:
    """Copy model folders (those with a ``config.json``) that the model directory does not have, whole or not."""
    if not source.is_dir():
        raise Invalid(f"{source}: not a folder; --models takes one that holds folders of weights")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in sorted(source.iterdir()):
        if not (folder / "config.json").is_file() or (target / folder.name).exists():
            continue
        say(f"copying model {folder.name} into {target}")
        draft = target / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(folder, draft)
        draft.rename(target / folder.name)
