"""The ranks that an incident names, for links to their logs. Pure."""

from __future__ import annotations

import re

from reconciler.console.snapshot import Body

RANKS_MAX = 8
_RANK = re.compile(r"\brank (\d{1,4})\b[^()]{0,200}\(epoch (\d{1,9})\b")
_SUBJECT = re.compile(r"[a-z0-9.-]+/\d+")


def logs_of(incident: Body) -> tuple[str, ...]:
    """Return the names of the ranks that the entries of a replica's incident name, in their order."""
    deployment, _, replica = str(incident["subject"]).partition("/")
    if not _SUBJECT.fullmatch(str(incident["subject"])):
        return ()
    texts = [str(entry["text"]) for entry in incident["entries"]]
    found = dict.fromkeys(
        f"{deployment}.{replica}.{epoch}.{rank}" for text in texts for rank, epoch in _RANK.findall(text)
    )
    return tuple(found)[:RANKS_MAX]
