"""The group that should serve each replica."""

from __future__ import annotations

import json
import sqlite3

from reconciler.state import DeploymentName, GroupRecord, NodeName, ReplicaId
from reconciler.state.formed_spec import FormedSpec, written
from reconciler.state.formed_under import Facts


class Groups:
    """The table ``groups``. Call ``put`` in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def put(self, group: GroupRecord) -> None:
        """Store a group in place of the replica's previous one."""
        replica = group.replica
        self._db.execute(
            "INSERT OR REPLACE INTO groups (deployment, replica, epoch, members, port, secret,"
            " fingerprint, created_at, rank_bytes, proven_at, model, strategy,"
            " strategy_why, transport, transport_why, boots, facts, needs, weights, weights_before,"
            " context, spec, spec_before, guessed)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                replica.deployment, replica.index, group.epoch, json.dumps(group.members), group.port,
                group.secret, group.fingerprint, group.created_at, group.rank_bytes, group.proven_at,
                group.model, group.strategy, group.strategy_why, group.transport, group.transport_why,
                json.dumps(group.boots), str(group.facts), json.dumps(group.needs), group.weights,
                group.weights_before, group.context, written(group.spec), written(group.spec_before), int(group.guessed),
            ),
        )  # fmt: skip

    def keep_spec(self, replica: ReplicaId, epoch: int, spec: FormedSpec) -> None:
        """Note the spec that a group was formed for, where it was not known."""
        self._db.execute(
            "UPDATE groups SET spec = ? WHERE deployment = ? AND replica = ? AND epoch = ?",
            (spec.json, replica.deployment, replica.index, epoch),
        )

    def all(self) -> dict[ReplicaId, GroupRecord]:
        """Return every group."""
        rows = self._db.execute(
            "SELECT deployment, replica, epoch, members, port, secret, fingerprint, created_at,"
            " rank_bytes, proven_at, model, strategy, strategy_why, transport, transport_why,"
            " boots, facts, needs, weights, weights_before, context, spec,"
            " spec_before, guessed FROM groups"
        )
        records = [
            GroupRecord(
                replica=ReplicaId(DeploymentName(row[0]), row[1]),
                epoch=row[2],
                members=tuple(NodeName(name) for name in json.loads(row[3])),
                port=row[4],
                secret=row[5],
                fingerprint=row[6],
                created_at=row[7],
                rank_bytes=row[8],
                proven_at=row[9],
                model=row[10],
                strategy=row[11],
                strategy_why=row[12],
                transport=row[13],
                transport_why=row[14],
                boots=tuple(json.loads(row[15])),
                facts=Facts.parse(row[16]),
                needs=tuple(json.loads(row[17])),
                weights=row[18],
                weights_before=row[19],
                context=row[20],
                spec=FormedSpec.parse(row[21]),
                spec_before=FormedSpec.parse(row[22]),
                guessed=bool(row[23]),
            )
            for row in rows
        ]
        return {record.replica: record for record in records}
