"""What a person types for a client, read out of ``docs/clients.md``: its blocks are what the tests run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.e2e.cluster import ROOT

PAGE = ROOT / "docs" / "clients.md"
ENDPOINT = "http://127.0.0.1:8400"
"""The endpoint in the document, which stands for that of the cluster."""
KEY = "none"
"""The key in the document."""
NOT_RUN = "Not run here"
"""Begins the reason, in the section of a client that no test starts."""
_BLOCK = re.compile(
    r"(?:^`(?P<file>[^`\n]+)`[^\n]*:\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """Lines to type: the text of a file, a program, or commands of a shell."""

    language: str
    text: str
    file: str = ""
    """Where it belongs, if the line before says so: ``~/`` is the person's home, anything else the project's folder."""

    def at(self, endpoint: str, key: str = KEY) -> str:
        """Return the text with the cluster's endpoint, such as ``http://127.0.0.1:41234``, and a key."""
        return self.text.replace(ENDPOINT, endpoint).replace(f'"{KEY}"', f'"{key}"')

    def exports(self, endpoint: str) -> Mapping[str, str]:
        """Return the variables that a shell's block exports, with the cluster's endpoint."""
        return dict(re.findall(r"^export (\w+)=(\S*)$", self.at(endpoint), re.M))


def sections() -> Mapping[str, str]:
    """Return the text below each heading of the third level."""
    parts = re.split(r"^#{2,3} (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(name: str) -> Sequence[Block]:
    """Return the blocks of a client's section."""
    return [
        Block(found["language"], found["text"], found["file"] or "")
        for found in _BLOCK.finditer(sections()[name])
    ]
