"""A text that the repository keeps next to the commits: the folder of the revision in force, and the kept objects,
whose earlier manifests stay in force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from reconciler.resources import KINDS, Manifest
from reconciler.state.identity import ObjectKey

from .git.repository import KEPT, ClusterRepo


def text_of(revision: str, kept: Mapping[ObjectKey, Manifest | None], folder: str = "") -> bytes:
    """Return the text about a revision: its kept objects, None for an object that stays out, and the folder of its
    manifests."""
    objects = [
        {"kind": key.kind, "name": key.name, "manifest": manifest and manifest.model_dump(mode="json", by_alias=True)}
        for key, manifest in sorted(kept.items())
    ]  # fmt: skip
    return json.dumps({"revision": revision, "folder": folder, "objects": objects}).encode()


def kept_of(text: bytes, revision: str) -> dict[ObjectKey, Manifest | None]:
    """Return the kept objects of a revision; nothing if the text is about another one.

    An object that this version cannot read is left out: the revision's own manifest counts.
    """
    try:
        body = json.loads(text)
        objects = body["objects"] if body["revision"] == revision else ()
        read = ((ObjectKey(each["kind"], each["name"]), each["manifest"]) for each in objects)
        found = {key: (body, _manifest(key.kind, body)) for key, body in read}
    except (ValueError, KeyError, TypeError):
        return {}
    return {key: manifest for key, (body, manifest) in found.items() if manifest is not None or body is None}


def noted(repo: ClusterRepo, revision: str) -> dict[ObjectKey, Manifest | None]:
    """Return the kept objects that a repository has stored for a revision. Raises like ``ClusterRepo``."""
    text = repo.in_force(KEPT)
    return kept_of(repo.blobs((text,))[text], revision) if text is not None else {}


def noted_folder(repo: ClusterRepo, revision: str) -> str | None:
    """Return the folder that a repository has stored for a revision; None if it has none. Raises like
    ``ClusterRepo``."""
    text = repo.in_force(KEPT)
    try:
        body = json.loads(repo.blobs((text,))[text]) if text is not None else {}
        return str(body["folder"]) if body["revision"] == revision else None
    except (ValueError, KeyError, TypeError):
        return None


def _manifest(kind: str, body: Any) -> Manifest | None:
    if body is None or kind not in KINDS:
        return None
    try:
        return KINDS[kind].model_validate_json(json.dumps(body))
    except ValidationError:
        return None
