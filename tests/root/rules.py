"""Real nftables, in network namespaces."""

from __future__ import annotations

from . import needs

TOOLS = ("nft", "ip", "unshare", "nsenter")


def why_not() -> str:
    """Why this cannot be had here; empty where it can."""
    trial = ["unshare", "--net", "nft", "add", "table", "inet", "try"]
    return needs.why_not(TOOLS, "nftables, iproute2, util-linux", trial, "no nftables here")
