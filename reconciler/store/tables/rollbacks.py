"""The spec that did not come up in a deployment, and the one that is served instead."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from reconciler.state import DeploymentName
from reconciler.state.formed_spec import FormedSpec, written
from reconciler.state.rollback import Rollback


class Rollbacks:
    """The table ``setbacks``, a row for each deployment. Call ``note`` and ``forget`` in a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def note(self, deployment: DeploymentName, rollback: Rollback) -> None:
        """Store a rollback in place of the previous one."""
        self._db.execute(
            "INSERT OR REPLACE INTO setbacks (deployment, model, tried, served, restarted_at, at, text,"
            " spec_tried, spec_served) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                deployment, rollback.model, rollback.tried, rollback.served, rollback.restarted_at, rollback.at,
                rollback.text, written(rollback.spec_tried), written(rollback.spec_served),
            ),
        )  # fmt: skip

    def forget(self, deployment: DeploymentName) -> None:
        """Remove the rollback of a deployment."""
        self._db.execute("DELETE FROM setbacks WHERE deployment = ?", (deployment,))

    def all(self) -> dict[DeploymentName, Rollback]:
        """Return the last rollback of each deployment, whether it still applies or not."""
        rows = self._db.execute(
            "SELECT deployment, model, tried, served, restarted_at, at, text, spec_tried, spec_served FROM setbacks"
            " ORDER BY deployment"
        )
        return {
            DeploymentName(name): replace(
                Rollback(*rest), spec_tried=FormedSpec.parse(tried), spec_served=FormedSpec.parse(served)
            )
            for name, *rest, tried, served in rows
        }
