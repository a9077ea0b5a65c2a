"""Few descriptors are told."""

from __future__ import annotations

from reconciler.serving.limiter import FEW, shortage


def test_few_are_told() -> None:
    assert shortage("the gateway", FEW) == ""
    assert (
        shortage("the gateway", 256)
        == "the gateway may have only 256 descriptors, so it takes at most 192 connections"
    )
