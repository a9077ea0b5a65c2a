"""The environment that this command is installed in, and the commands that change its packages."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, requires
from importlib.util import find_spec
from pathlib import Path

from reconciler import __version__
from reconciler.errors import Invalid

DISTRIBUTION = "mlx-reconciler"
"""Name of the distribution. `reconciler`, the name of the command, is another project's on PyPI."""
RUNTIME = f"{DISTRIBUTION}[runtime]"
"""The distribution with the packages that ranks need on this machine."""


def has_runtime() -> bool:
    """Return whether ranks can be started with this environment's Python."""
    return all(find_spec(name) is not None for name in ("mlx", "mlx_lm"))


def runtime_packages() -> tuple[str, ...]:
    """Return the packages that ranks need in addition to this command, in the versions that it was made for."""
    with suppress(PackageNotFoundError):
        found = [line.partition(";") for line in requires(DISTRIBUTION) or ()]
        return tuple(
            name.strip()
            for name, _, marker in found
            if "'runtime'" in marker.replace('"', "'")
            and ("sys_platform" not in marker or sys.platform in marker)
        )
    return ()


def install_command(packages: Sequence[str], prefix: Path | None = None) -> str:
    """Return the line to type that adds packages to this command's environment, with the tool that installed it."""
    where, shown = prefix or Path(sys.prefix), shlex.join(packages)
    if any(part.startswith("archive-v") for part in where.parts):  # uv's cache: `uvx`, only for this run
        return f"uvx {' '.join(f'--with {shlex.quote(each)}' for each in packages)}, and the rest as you typed it"
    if (where / "pipx_metadata.json").exists():
        return f"pipx inject {DISTRIBUTION} {shown}"
    python = shlex.quote(str(where / "bin" / "python"))
    if (where / "uv-receipt.toml").exists() or find_spec("pip") is None:
        return f"uv pip install --python {python} {shown}"
    return f"{python} -m pip install {shown}"


OWN_COMMAND = (sys.executable, "-P", "-m", "reconciler")
"""This command. -P: files in the current folder must not be imported as the reconciler's own modules."""


def own_environment(home: Path, *first: str) -> dict[str, str]:
    """Return the variables for this command in a process of its own. ``first``: folders to search for modules before others."""
    paths = (*first, str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH"))
    return {**os.environ, "RECONCILER_HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


# --- the product itself ----------------------------------------------------------------------------

INDEXES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_NO_INDEX", "UV_OFFLINE")
"""Variables of uv with which a person names the source of packages. The product is never taken from PyPI: it is not
published there, and anybody who took its name could run code here."""


def own_requirement(index_url: str | None = None) -> str:
    """Return the requirement that installs this same command into another environment: the clone or the wheel that it came
    from, else its version from an index. Raises ``Invalid`` if no index was named."""
    with suppress(PackageNotFoundError):
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        if origin.get("url", "").startswith(("file://", "https://")):
            return f"{_wanted()} @ {origin['url']}"
    return requirement_at(__version__, index_url)


def requirement_of(path: Path) -> str:
    """Return the requirement that installs the wheel or the clone at ``path``."""
    return f"{_wanted()} @ {path.absolute().as_uri()}"


def requirement_at(version: str, index_url: str | None) -> str:
    """Return the requirement that installs a version from an index. Raises ``Invalid`` if no index was named."""
    if index_url is None and not any(os.environ.get(name) for name in INDEXES):
        raise Invalid(
            f"no index was named that has {DISTRIBUTION} {version}: give the wheel or the clone with --from PATH, or an index"
            " of your own with --index-url URL; it is published on none"
        )
    return f"{_wanted()}=={version}"


def _wanted() -> str:
    return RUNTIME if has_runtime() else DISTRIBUTION
