"""The page about the state directory knows every file that the product writes there."""

from __future__ import annotations

import re

from reconciler.agent.ranks.child import TEMPORARY_BYTES_MAX
from reconciler.agent.ranks.log import SEGMENT_BYTES_MAX, SEGMENTS_KEPT
from reconciler.agent.serving import LOG_BYTES_MAX as AGENT_LOG_BYTES_MAX
from reconciler.incidents import FIRST_ENTRIES_KEPT, LAST_ENTRIES_KEPT, TEXT_CHARACTERS_MAX
from reconciler.planning.nodes.agents import EPOCHS_KEPT
from reconciler.services.supervise import LOG_BYTES_MAX
from reconciler.store.aside import DAMAGED_KEPT
from reconciler.store.tables.events import EVENTS_KEPT, MESSAGE_CHARACTERS_MAX
from reconciler.store.tables.incidents import INCIDENTS_KEPT, KEPT_SECONDS
from reconciler.store.tables.notifications import ENDED_KEPT, WAITING_MAX
from reconciler.store.tables.objects import APPROVALS_KEPT

from .newcomer import ROOT

TEXT = (ROOT / "docs" / "state-directory.md").read_text()
ROWS = {line.split("|")[1].strip(): line for line in TEXT.splitlines() if line.startswith("| `")}
MIB = 1024 * 1024


def named() -> list[str]:
    """Every path of the table, as a pattern relative to the home."""
    return [pattern for cell in ROWS for pattern in re.findall(r"`([^`]+)`", cell)]


def row(path: str) -> str:
    return next(line for cell, line in ROWS.items() if f"`{path}`" in cell)


def test_the_bounds_in_the_table_are_those_of_the_product() -> None:
    assert f"{EVENTS_KEPT:,}".replace(",", " ") + " events" in row("store.db")
    assert f"{MESSAGE_CHARACTERS_MAX:,}".replace(",", " ") + " characters" in row("store.db")
    assert f"{INCIDENTS_KEPT} incidents that are over, for {KEPT_SECONDS / 86_400:.0f} days" in row(
        "store.db"
    )
    entries = f"{FIRST_ENTRIES_KEPT + LAST_ENTRIES_KEPT} entries"
    assert f"{entries} of at most {TEXT_CHARACTERS_MAX:,}".replace(",", " ") in row("store.db")
    assert f"{WAITING_MAX + ENDED_KEPT} messages to each Notifier" in row("store.db")
    assert f"{APPROVALS_KEPT} approvals" in row("store.db")
    assert f"the newest {DAMAGED_KEPT}" in row("store.db.damaged-*")
    assert f"{LOG_BYTES_MAX // MIB} MiB" in row("logs/controller.log")
    assert f"{AGENT_LOG_BYTES_MAX // MIB} MiB" in row("nodes/*/agent.log")
    assert f"{TEMPORARY_BYTES_MAX // MIB} MiB" in row("nodes/*/tmp/")
    assert f"output {SEGMENT_BYTES_MAX * SEGMENTS_KEPT // MIB} MiB" in row("nodes/*/ranks/*/")
    assert EPOCHS_KEPT == 2
    assert "two epochs" in row("nodes/*/ranks/*/")
