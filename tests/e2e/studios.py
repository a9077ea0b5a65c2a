"""The example with four Mac Studios on emulated ones, as a user starts it, and the end of everything."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .cluster import ROOT, Cluster, cluster

Change = Callable[[str], str]
"""Of the text of a manifest."""


def manifests(folder: Path, change: Change) -> Path:
    """The example, with a port that is free, and changed."""
    folder.mkdir()
    for path in (ROOT / "examples" / "four-studios").glob("*.yaml"):
        text = path.read_text().replace("127.0.0.1:8400", f"127.0.0.1:{free_port()}")
        (folder / path.name).write_text(change(text))
    return folder


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def studios(folder: Path, change: Change = str) -> Iterator[Cluster]:
    """Emulated ones, and a cluster that is started on them; nothing is left of either."""
    with cluster() as made:
        for name in ("HOME", "TMPDIR"):
            made.environment[name] = str(folder / name.lower())
            (folder / name.lower()).mkdir()
        made.run("sandbox", "up", "-f", str(manifests(folder / "four-studios", change)), "--detach")
        try:
            made.start("-f", str(made.home / "sandbox" / "cluster"))
            yield made
        finally:
            if made.up is not None and made.up.poll() is None:
                made.stop()
            made.run("sandbox", "down")
        made.wait("the end of everything", lambda: not made.processes(), 20)
        assert [path for name in ("home", "tmpdir") for path in (folder / name).rglob("*")] == []
