"""Reads manifests for commands, in a thread: a large folder takes longer than the loop may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.errors import InvalidManifests, Problem, Refused
from reconciler.source.editing import diff
from reconciler.source.edition import edition
from reconciler.source.sources import Source
from reconciler.source.yaml.documents import load
from reconciler.source.yaml.references import checked
from reconciler.wire import answers
from reconciler.wire.admin import MANIFESTS_BYTES_MAX, Compare, Validate

EDITION = edition()
"""The edition of the code with which this process began: its files may have changed since."""


@dataclass(slots=True)
class Reading:
    """Answers one command after the other, because it shares threads with work that the loop waits for."""

    source: Source
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, message: Validate | Compare) -> answers.Compared:
        """Answer a request. Raises ``Refused`` as it says."""
        if message.edition != EDITION:
            raise Refused("OtherEdition", "the controller runs other code than the command")
        files = {name: text.encode() for name, text in message.files.items()}
        if sum(map(len, files.values())) > MANIFESTS_BYTES_MAX:
            raise Refused(
                "TooLarge", f"at most {MANIFESTS_BYTES_MAX} bytes of manifests are read for a command"
            )
        async with self._turn:
            try:
                return await asyncio.to_thread(self._read, message, files)
            except InvalidManifests as error:
                return {"problems": [_problem(each) for each in error.problems]}

    def _read(self, message: Validate | Compare, files: Mapping[str, bytes]) -> answers.Compared:
        if isinstance(message, Validate):
            found = checked(files, message.references)
            return {"objects": [document.key for document in found], "problems": []}
        repo = self.source.repository()
        if repo is None:
            raise Refused("WatchedFolder", f"the controller reads {self.source.describe()}")
        incoming, head = load(files, part=True), repo.head()
        present = load(repo.read(head)) if head else ()
        items = [each.body() for each in diff(present, incoming)]
        return {"objects": [document.key for document in incoming], "items": items, "problems": []}


def _problem(found: Problem) -> answers.ManifestProblem:
    return {
        "file": found.file,
        "line": found.line,
        "column": found.column,
        "path": found.path,
        "text": found.text,
    }
