"""The fingerprint of a job: equal for two manifests exactly when one run serves both."""

from __future__ import annotations

import hashlib
import json

from reconciler.resources import Job

RUN = frozenset(
    {
        "program",
        "nodes",
        "transport",
        "memory",
        "env",
        "secrets",
        "files",
        "artifacts",
        "limits",
        "restarted_at",
    }
)
"""The fields that decide what a run does. A change of any other reaches the run that is there."""


def fingerprint(job: Job) -> str:
    """Return 16 hexadecimal digits. Defaults are left out, so that a field of a later version begins no run again."""
    hashed = job.spec.model_dump(mode="json", by_alias=True, include=set(RUN), exclude_defaults=True)
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]
