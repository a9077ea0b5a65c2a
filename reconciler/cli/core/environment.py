"""The environment that this command is installed in, and how a person changes what is in it."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from reconciler import __version__

DISTRIBUTION = "mlx-reconciler"
"""Name on PyPI. `reconciler`, the name of the command, is another project's there."""
RUNTIME = f"{DISTRIBUTION}[runtime]"
"""The distribution with what ranks need on this machine."""


def has_runtime() -> bool:
    """Return whether ranks can be started with this environment's Python."""
    return all(find_spec(name) is not None for name in ("mlx", "mlx_lm"))


def install_command(requirement: str, prefix: Path | None = None) -> str:
    """Return the line to type that installs ``requirement`` where this command is, with the tool that has installed it."""
    where, shown = prefix or Path(sys.prefix), shlex.quote(requirement)
    if (where / "uv-receipt.toml").exists():
        return f"uv tool install --force {shown}"
    if (where / "pipx_metadata.json").exists():
        return f"pipx install --force {shown}"
    if any(part.startswith("archive-v") for part in where.parts):  # uv's cache: `uvx`, for this time alone
        return f"uvx --from {shown} reconciler"
    python = shlex.quote(str(where / "bin" / "python"))
    if find_spec("pip") is None:
        return f"uv pip install --python {python} {shown}"
    return f"{python} -m pip install {shown}"


def own_requirement() -> str:
    """Return what installs this very command into another environment: from the clone or the wheel that it came from,
    else its version from an index."""
    extra = RUNTIME if has_runtime() else DISTRIBUTION
    with suppress(PackageNotFoundError):
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        if origin.get("url", "").startswith("file://"):
            return f"{extra} @ {origin['url']}"
    return f"{extra}=={__version__}"


def requirement_of(path: Path) -> str:
    """Return what installs the wheel or the clone at ``path``."""
    return f"{RUNTIME if has_runtime() else DISTRIBUTION} @ {path.absolute().as_uri()}"


def requirement_at(version: str) -> str:
    """Return what installs a version from an index."""
    return f"{RUNTIME if has_runtime() else DISTRIBUTION}=={version}"
