"""The incidents in their newest state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reconciler.state import FaultClass, RefusedBecause, subjects
from reconciler.state.identity import ObjectKey
from reconciler.state.jobs import RunReason
from reconciler.state.reports.incident import Class, Entry, EntryKind, Incident
from reconciler.store.bodies import written
from reconciler.store.connection import Connection, put
from reconciler.wire.launch import RankId

INCIDENTS_KEPT = 500
"""Settled incidents to keep; the oldest are dropped first."""
_CLASSES: Mapping[str, Class] = {
    each.value: each for of in (FaultClass, RefusedBecause, RunReason) for each in of
}
"""Classes by their values. Where two have one, it is the last: a failed run is an incident, a refusal of a job is none."""
KEPT_SECONDS = 90 * 86_400.0
"""A settled incident that is older is dropped."""


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    id: int | None = None
    kind: str | None = None
    name: str | None = None
    open: bool = False
    """Find only open incidents."""
    since: float | None = None
    """Find only incidents that were open at this time or later."""
    limit: int = 100


class Incidents:
    """The table ``incidents``. Call ``put`` in a transaction."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def last_id(self) -> int:
        """Return the highest id so far: ids are never reused, even after old incidents were removed."""
        return self._db.counter("incident")

    def put(self, incidents: Iterable[Incident], now: float) -> None:
        """Write incidents as they are now, and drop settled ones that are too many or too old."""
        incidents = tuple(incidents)
        self._db.executemany(
            "INSERT OR REPLACE INTO incidents (id, kind, name, opened_at, closed_at, settled, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(i.id, *i.object, i.opened_at, i.closed_at, i.settled, written(i)) for i in incidents],
        )
        last = max([self.last_id(), *(incident.id for incident in incidents)])
        put(self._db, "counters", name="incident", value=last)
        self._db.execute(
            "DELETE FROM incidents WHERE settled AND (closed_at < ? OR id NOT IN"
            " (SELECT id FROM incidents WHERE settled ORDER BY id DESC LIMIT ?))",
            (now - KEPT_SECONDS, INCIDENTS_KEPT),
        )

    def unsettled(self) -> dict[int, Incident]:
        """Return the incidents that are open or may come back, by id."""
        rows = self._db.execute("SELECT body FROM incidents WHERE NOT settled ORDER BY id")
        return {incident.id: incident for incident in map(_read, rows)}

    def find(self, wanted: IncidentFilter) -> list[Incident]:
        """Return the newest matching incidents, oldest first."""
        rows = self._db.execute(
            "SELECT body FROM (SELECT id, body FROM incidents WHERE (:id IS NULL OR id = :id)"
            " AND (:kind IS NULL OR kind = :kind) AND (:name IS NULL OR name = :name)"
            " AND (NOT :open OR closed_at IS NULL)"
            " AND (:since IS NULL OR closed_at IS NULL OR closed_at >= :since)"
            " ORDER BY id DESC LIMIT :limit) ORDER BY id",
            asdict(wanted),
        )
        return [_read(row) for row in rows]


def _read(row: tuple[str]) -> Incident:
    body: dict[str, Any] = json.loads(row[0])
    return Incident(
        **{
            **body,
            "object": ObjectKey(*body["object"]),
            "subject": subjects.read(body["subject"]),
            "fault": _class(body["fault"]),
            "present": body["present"] and _class(body["present"]),
            "asked": tuple(map(_class, body["asked"])),
            "entries": tuple(_entry(entry) for entry in body["entries"]),
        }
    )


def _entry(body: dict[str, Any]) -> Entry:
    sign, rank = body.get("sign"), body.get("rank")
    return Entry(
        **{
            **body,
            "kind": EntryKind(body["kind"]),
            "fault": body["fault"] and _class(body["fault"]),
            "sign": None if sign is None else tuple(sign),
            "rank": None if rank is None else RankId.parse(rank),
        }
    )


def _class(value: str) -> Class:
    return _CLASSES[value]
