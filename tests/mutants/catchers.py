"""Which test caught each bug the last time: it is run first, and the others that map to the bug only if it passes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

FILE = Path(__file__).with_name("catchers.json")


def known() -> dict[str, str]:
    """The test, by the name of the bug; a test that is gone by now costs only time."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def remember(caught: Mapping[str, str], names: frozenset[str]) -> None:
    """Add those, and drop what is no bug of the catalogues any more."""
    kept = {name: test for name, test in {**known(), **caught}.items() if name in names}
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
