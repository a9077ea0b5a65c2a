"""The inventory: every object in force as it was last read, and those being removed.

It is written before a revision is acted on, and an object leaves it only when nothing of it runs. It has the objects in
force when the source cannot give them: after a restart while the newest revision is wrong or held, and when the
repository is damaged or the watched folder is gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pydantic import ValidationError

from reconciler.resources import KINDS, Manifest
from reconciler.state import Desired, Leaving, ObjectKey
from reconciler.store.connection import Connection, put

APPROVALS_KEPT = 100


class Objects:
    """The tables ``objects``, ``in_force``, ``kept`` and ``approvals``. Every method is one transaction."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    # --- objects in force ----------------------------------------------------------------------

    def apply(
        self, incoming: Desired, at: float, kept: Mapping[ObjectKey, Manifest | None] = MappingProxyType({})
    ) -> Desired:
        """Put a revision in force. Return it with the generation and first time of each object. ``kept``: the objects
        that stay as they were before the revision, as in ``admission.judge.InForce``.

        A changed spec increases its generation. Objects that are missing from the revision begin to leave. Approvals of
        other revisions expire.
        """
        objects = incoming.objects()
        with self._db.writing():
            rows = self._db.execute("SELECT kind, name, digest, generation, created_at FROM objects")
            known = {ObjectKey(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}
            for key, manifest in objects.items():
                digest = _digest(manifest)
                before = known.get(key, (digest, 1, at))
                known[key] = (digest, before[1] + (before[0] != digest), before[2])
                self._db.execute(
                    "INSERT OR REPLACE INTO objects (kind, name, digest, generation, created_at, manifest)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (*key, *known[key], manifest.model_dump_json(by_alias=True)),
                )
            self._db.executemany(
                "UPDATE objects SET deleted_at = ? WHERE kind = ? AND name = ? AND deleted_at IS NULL",
                [(at, *key) for key in known.keys() - objects.keys()],
            )
            # A store of version 1 has no manifests: such an object could not be shown while it leaves.
            self._db.execute("DELETE FROM objects WHERE deleted_at IS NOT NULL AND manifest IS NULL")
            # An approval covers the revision in force at that time. Not every revision has its own name: a folder
            # without manifests has the same one each time.
            self._db.execute("DELETE FROM approvals WHERE revision <> ?", (incoming.revision,))
            put(self._db, "in_force", id=1, revision=incoming.revision, since=at)
            self._db.execute("DELETE FROM kept")
            self._db.executemany(
                "INSERT INTO kept (kind, name, manifest) VALUES (?, ?, ?)",
                [
                    (*key, None if each is None else each.model_dump_json(by_alias=True))
                    for key, each in kept.items()
                ],
            )
        return replace(
            incoming,
            generations={key: known[key][1] for key in objects},
            created={key: known[key][2] for key in objects},
        )

    def revision(self) -> str | None:
        """Return the revision that came into force last; None in a new store."""
        row = self._db.execute("SELECT revision FROM in_force").fetchone()
        return row[0] if row else None

    def kept(self) -> Mapping[ObjectKey, Manifest | None]:
        """Return the objects that stay as they were before the revision in force; None for an object that stays out."""
        rows = self._db.execute("SELECT kind, name, manifest FROM kept")
        found = {ObjectKey(kind, name): (text, _manifest(kind, text)) for kind, name, text in rows}
        # An object that this version cannot read is as the revision has it.
        return {
            key: manifest for key, (text, manifest) in found.items() if manifest is not None or text is None
        }

    def in_force(self) -> Desired | None:
        """Return the complete desired state that came into force last; None if it is unknown."""
        revision = self.revision()
        if revision is None:
            return None
        rows = self._db.execute(
            "SELECT kind, name, manifest, generation, created_at FROM objects WHERE deleted_at IS NULL"
        )
        manifests, generations, created = [], {}, {}
        for kind, name, text, generation, first in rows:
            manifest = _manifest(kind, text)
            if manifest is None:
                return None
            manifests.append(manifest)
            generations[ObjectKey(kind, name)] = generation
            created[ObjectKey(kind, name)] = first
        return replace(Desired.of(revision, manifests), generations=generations, created=created)

    def keys(self) -> frozenset[ObjectKey]:
        """Return the objects in force."""
        rows = self._db.execute("SELECT kind, name FROM objects WHERE deleted_at IS NULL")
        return frozenset(ObjectKey(*row) for row in rows)

    # --- leaving objects -----------------------------------------------------------------------

    def leaving(self) -> Mapping[ObjectKey, Leaving]:
        """Return the removed objects that may still have something running."""
        rows = self._db.execute(
            "SELECT kind, name, manifest, generation, deleted_at FROM objects WHERE deleted_at IS NOT NULL"
        )
        found = {}
        for kind, name, text, generation, since in rows:
            manifest = _manifest(kind, text)
            if manifest is not None:
                found[ObjectKey(kind, name)] = Leaving(manifest, generation, since)
        return found

    def remove(self, key: ObjectKey) -> None:
        """Remove an object that has left; an object that has come back meanwhile stays."""
        with self._db.writing():
            gone = self._db.execute(
                "DELETE FROM objects WHERE kind = ? AND name = ? AND deleted_at IS NOT NULL", key
            )
            if gone.rowcount:
                self._db.execute("DELETE FROM statuses WHERE kind = ? AND name = ?", key)
                if key.kind == "ModelDeployment":  # a new deployment of this name begins with a fresh budget
                    self._db.execute("DELETE FROM attempts WHERE deployment = ?", (key.name,))
                    self._db.execute("DELETE FROM setbacks WHERE deployment = ?", (key.name,))

    # --- approvals -----------------------------------------------------------------------------

    def approve(self, revision: str, at: float, by: str) -> None:
        """Note that a revision's removals are approved; the first approval stays."""
        with self._db.writing():
            self._db.execute(
                "INSERT OR IGNORE INTO approvals (revision, at, by) VALUES (?, ?, ?)", (revision, at, by)
            )
            self._db.execute(
                "DELETE FROM approvals WHERE revision NOT IN"
                " (SELECT revision FROM approvals ORDER BY at DESC LIMIT ?)",
                (APPROVALS_KEPT,),
            )

    def approved(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._db.execute("SELECT revision FROM approvals"))


def _digest(manifest: Manifest) -> str:
    """Return a digest of the spec without default values, so that a field added by a later version changes no
    object."""
    spec = manifest.model_dump_json(by_alias=True, include={"spec"}, exclude_defaults=True)
    return hashlib.sha256(spec.encode()).hexdigest()


def _manifest(kind: str, text: str | None) -> Manifest | None:
    """Return the manifest; None if a store of version 1 lacks it, or if it is no longer valid."""
    if text is None or kind not in KINDS:
        return None
    try:
        return KINDS[kind].model_validate_json(text)
    except ValidationError:
        return None
