"""Real nftables, in network namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

TOOLS = ("nft", "ip", "unshare", "nsenter")
_SECONDS = 30.0


def why_not() -> str:
    """Why this cannot be had here; empty where it can."""
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "it needs root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"it needs {', '.join(missing)}: packages nftables, iproute2, util-linux"
    tried = subprocess.run(
        ["unshare", "--net", "nft", "add", "table", "inet", "try"],
        capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    return f"no nftables here: {tried.stderr.strip()}" if tried.returncode else ""
