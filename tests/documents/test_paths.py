"""Every file and folder of the repository that a document names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .newcomer import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = {path.name for base in ("reconciler", "tests") for path in (ROOT / base).iterdir() if path.is_dir()}


def named(document: Path) -> set[str]:
    """Paths in backticks that begin with a folder of the repository, or with a room."""
    found = re.findall(r"`([\w.-]+/[\w./-]*)(?:::\w+)?`", document.read_text())
    folders = ROOMS | {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "reconciler"}
    folders.discard(".git")
    return {path for path in found if path.split("/")[0] in folders and not re.search(r"[A-Z]{3}", path)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_that_is_named_exists(document: Path) -> None:
    places = (ROOT, ROOT / "reconciler", ROOT / "tests", document.parent)
    assert {path for path in named(document) if not any((place / path).exists() for place in places)} == set()
