"""Writes plain values as YAML. Imports no kinds, so that commands that only print start quickly."""

from __future__ import annotations

import yaml


def as_yaml(plain: object) -> str:
    """Return plain JSON-like values as YAML, in their own order."""
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    return text
