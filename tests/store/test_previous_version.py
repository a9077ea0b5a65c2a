"""A store of the version before is opened by this one, with all that it holds."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from reconciler.store import Store
from tests.previous import fill_store, unpack

pytestmark = pytest.mark.processes
RENAMED = {"workload": "replica"}
"""Fields of this version that had another name in the version before."""


def rows_by_table(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        return {
            name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for (name,) in tables.fetchall()
        }


def known(found: Any, written: Any) -> Any:
    """Leave out the fields that the version before does not have. They say nothing of what it has written."""
    if isinstance(found, dict) and isinstance(written, dict):
        found = {RENAMED.get(name, name): each for name, each in found.items()}
        assert not any(found[name] for name in found.keys() - written.keys())
        return {name: known(found[name], written.get(name)) for name in found.keys() & written.keys()}
    if isinstance(found, list) and isinstance(written, list):
        return [known(*each) for each in zip_longest(found, written)]
    return found


def test_every_table_that_the_version_before_has_written_is_read_with_equal_objects(tmp_path: Path) -> None:
    before, path = unpack(tmp_path / "before"), tmp_path / "store.db"
    done = subprocess.run(
        [sys.executable, fill_store.__file__, path],
        env={**os.environ, "PYTHONPATH": str(before)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert written["package"] == str(before / "reconciler" / "__init__.py")
    assert all(rows_by_table(path).values()), rows_by_table(path)

    store = Store(path)
    try:
        assert not store.is_new
        assert store.token == 2
        found = json.loads(json.dumps(fill_store.contents(store)))
        assert known(found, written["contents"]) == written["contents"]
    finally:
        store.close()
