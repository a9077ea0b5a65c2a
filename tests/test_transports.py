"""Manifests offer the transports that there are, and each is of the shapes that its row says."""

from __future__ import annotations

from typing import get_args

from reconciler import transports
from reconciler.resources.deployment import Transport


def test_manifests_offer_all_transports_in_the_order_of_their_speed() -> None:
    assert get_args(Transport) == tuple(each.name for each in transports.TABLE)


def test_transports_have_the_shapes_of_their_rows() -> None:
    assert (transports.VERBS, transports.CABLES) == (("jaccl", "jaccl-ring"), ("jaccl", "jaccl-ring", "ring"))
    assert (transports.RINGS, transports.MESH, transports.LAN) == (
        ("jaccl-ring", "ring"),
        "jaccl",
        "ring-lan",
    )
