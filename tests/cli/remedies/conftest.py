"""A bench of its own for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .bench import Bench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    (folder / "somebody").mkdir()
    yield Bench(folder / "a home", folder, monkeypatch, capsys)
    shutil.rmtree(folder)
