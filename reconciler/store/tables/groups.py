"""The group of each workload."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from reconciler.state import GroupRecord, ReplicaId, WorkloadId
from reconciler.state.formed_spec import FormedSpec, written
from reconciler.state.formed_under import Facts
from reconciler.state.identity import workload_name, workload_named
from reconciler.store.connection import Connection, put

_COLUMNS = tuple(each.name for each in fields(GroupRecord) if each.name != "workload")
"""Each field has a column of its name."""
_LISTS, _SPECS, _FLAGS = ("members", "boots", "needs"), ("spec", "spec_before"), ("guessed", "prove")


class Groups:
    """The table ``groups``. Call ``put`` in a transaction."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def put(self, group: GroupRecord) -> None:
        """Store a group in place of the workload's previous one."""
        row: dict[str, Any] = {name: getattr(group, name) for name in _COLUMNS}
        row |= {name: json.dumps(row[name]) for name in _LISTS}
        row |= {name: written(row[name]) for name in _SPECS}
        row |= {"facts": str(group.facts)} | {name: int(row[name]) for name in _FLAGS}
        name, index = workload_name(group.workload)
        put(self._db, "groups", deployment=name, replica=index, **row)

    def keep_spec(self, replica: ReplicaId, epoch: int, spec: FormedSpec) -> None:
        """Note the spec that a group was formed for, where it was not known."""
        with self._db.writing():
            self._db.execute(
                "UPDATE groups SET spec = ? WHERE deployment = ? AND replica = ? AND epoch = ?",
                (spec.json, replica.deployment, replica.index, epoch),
            )

    def all(self) -> dict[WorkloadId, GroupRecord]:
        found = {}
        for deployment, index, *values in self._db.execute(
            f"SELECT deployment, replica, {', '.join(_COLUMNS)} FROM groups"
        ):
            row = dict(zip(_COLUMNS, values, strict=True))
            row |= {name: tuple(json.loads(row[name])) for name in _LISTS}
            row |= {name: FormedSpec.parse(row[name]) for name in _SPECS}
            row |= {"facts": Facts.parse(row["facts"])} | {name: bool(row[name]) for name in _FLAGS}
            workload = workload_named(deployment, index)
            found[workload] = GroupRecord(workload, **row)
        return found
