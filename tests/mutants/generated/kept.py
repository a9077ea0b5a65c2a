"""Verdicts that outlast an interruption: a run goes on where one of the same product and tests was stopped."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.mutants.judging import PASSED, Verdict

from .reaching import CACHE


class Kept:
    """The verdicts of each tier on each bug, as lines of JSON."""

    def __init__(self, key: str, path: Path = CACHE / "verdicts.jsonl") -> None:
        """``key`` is that of the product and its tests; verdicts on others are forgotten."""
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        own = [line for line in lines if line.endswith("}") and json.loads(line)["key"] == key]
        self._found = {(row["tier"], row["verdict"]["name"]): row["verdict"] for row in map(json.loads, own)}
        self._key = key
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in own), encoding="utf-8")

    def of(self, tier: str, bug: str) -> Verdict | None:
        """Return what a tier said of a bug; none where it was not asked, or could not say."""
        found = self._found.get((tier, bug))
        return Verdict(**found) if found else None

    def add(self, tier: str, verdict: Verdict) -> None:
        """Keep a verdict, unless nothing can be said."""
        if not verdict.problem or verdict.ended != PASSED:
            row = {"key": self._key, "tier": tier, "verdict": asdict(verdict)}
            with self._path.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
