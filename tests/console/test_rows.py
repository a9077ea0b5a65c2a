"""What open pages are sent is no more than has changed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from reconciler.console.pages import PAGES, Pages
from reconciler.console.rows import news
from reconciler.console.snapshot import Snapshot

from .snapshots import enlarged


def nodes(snapshot: Snapshot) -> str:
    page = next(page for page in PAGES if page.path == "/nodes")
    return Pages().parts(page, "", snapshot)["nodes"]


def with_load(snapshot: Snapshot, machine: str, load: float) -> Snapshot:
    used: list[Any] = [
        {**row, "load": load} if row["name"] == machine else row for row in snapshot.usage["nodes"]
    ]
    return replace(snapshot, usage={**snapshot.usage, "nodes": used})


def test_of_200_machines_only_the_one_that_has_changed_is_sent() -> None:
    before = enlarged(200)
    found = news("nodes", nodes(before), nodes(with_load(before, "studio-007", 77.7)))
    assert list(found) == ["machine-studio-007"]
    assert "77.7" in found["machine-studio-007"]
    assert len(json.dumps(found)) < 1000


def test_a_page_that_shows_nothing_yet_gets_all() -> None:
    assert news("nodes", None, "<p>x</p>") == {"nodes": "<p>x</p>"}


def test_rows_that_come_and_go_bring_the_whole_part() -> None:
    before, after = nodes(enlarged(8)), nodes(enlarged(12))
    assert news("nodes", before, after) == {"nodes": after}


def test_what_changes_outside_of_rows_brings_the_whole_part() -> None:
    row = '<tr id="a"><td>1</td></tr>'
    assert news("x", f"<p>1</p>{row}", f"<p>2</p>{row}") == {"x": f"<p>2</p>{row}"}
    assert news("x", '<tr id="a" class="b"><td>1</td></tr>', row) == {"x": row}
