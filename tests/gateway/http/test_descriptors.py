"""Few descriptors are told."""

from __future__ import annotations

from reconciler.gateway.admission import FEW, shortage


def test_few_are_told() -> None:
    assert shortage(FEW) == ""
    assert shortage(256) == "the gateway may have only 256 descriptors, so it takes at most 192 connections"
