"""A real Redis or Valkey."""

from __future__ import annotations

import pytest

from reconciler.gateway.keys.shared import ledger


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store decide, however long this machine stands still in between."""
    monkeypatch.setattr(ledger, "WAIT_SECONDS", 30.0)
