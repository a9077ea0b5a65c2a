"""A plugin of pytest: notes which lines of the product each test reaches."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

from .recorder import FOLDER, ROOMS, Recorder

_masks: dict[str, int] = defaultdict(int)


def _note(file: str, line: int) -> None:
    _masks[file] |= 1 << line


_recorder = Recorder(ROOMS, _note)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write for each test a line of JSON: its name, its seconds, and a number of which each bit stands for a line."""
    _recorder.begin()
    _masks.clear()
    _recorder.start()
    began = time.monotonic()
    result = yield
    row = [item.nodeid, time.monotonic() - began, {file: f"{mask:x}" for file, mask in tuple(_masks.items())}]
    with Path(os.environ[FOLDER], f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
    return result
