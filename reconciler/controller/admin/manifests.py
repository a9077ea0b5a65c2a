"""Reads manifests for commands, in a thread: a large folder takes longer than the loop may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from reconciler import __version__
from reconciler.errors import InvalidManifests, Refused
from reconciler.source.checking import checked
from reconciler.source.editing import diff
from reconciler.source.sources import Source
from reconciler.source.yaml.documents import load
from reconciler.wire.manifests import Compare, Validate


async def answer(message: Validate | Compare, source: Source) -> dict[str, Any]:
    """Answer a request. Raises ``Refused`` as it says."""
    if message.version != __version__:
        text = f"the controller is version {__version__}, the command is {message.version}"
        raise Refused("OtherVersion", text)
    files = {name: text.encode() for name, text in message.files.items()}
    try:
        if isinstance(message, Validate):
            return await asyncio.to_thread(_validated, files, message.references)
        return await asyncio.to_thread(_compared, files, source)
    except InvalidManifests as error:
        return {"problems": [asdict(problem) for problem in error.problems]}


def _validated(files: Mapping[str, bytes], references: bool | None) -> dict[str, Any]:
    return {"objects": [document.key for document in checked(files, references)], "problems": []}


def _compared(files: Mapping[str, bytes], source: Source) -> dict[str, Any]:
    repo = source.repository()
    if repo is None:
        raise Refused("WatchedFolder", f"the controller reads {source.describe()}")
    incoming, head = load(files, part=True), repo.head()
    present = load(repo.read(head)) if head else ()
    items = [each.body() for each in diff(present, incoming)]
    return {"objects": [document.key for document in incoming], "items": items, "problems": []}
