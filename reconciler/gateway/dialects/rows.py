"""Tables that are files of this folder, written as Markdown."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence


def rows_of(name: str) -> Sequence[Sequence[str]]:
    """Return the cells of each row of a file, without its heading."""
    content = pkgutil.get_data(__package__, name)
    assert content is not None
    _, _, *lines = content.decode().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
