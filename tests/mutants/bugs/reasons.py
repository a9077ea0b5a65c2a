"""Why the first tier does not catch a bug that a later one does."""

from __future__ import annotations

from collections.abc import Mapping

NOT_IN_FIRST_TIER: Mapping[str, str] = {}
"""The reason, by the name of the bug, in words that a contributor can check."""
