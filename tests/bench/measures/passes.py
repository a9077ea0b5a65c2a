"""A pass of the controller's loop that finds nothing to do, over more and more objects."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.figures import Figure, alone

COUNTS = (10, 100, 1000)


def measure(quick: bool) -> Iterator[Figure]:
    """Each in a process of its own, as the controller is."""
    for count in COUNTS[:1] if quick else COUNTS:
        times = 3 if quick else 9
        command = [sys.executable, "-m", "tests.bench.controller", str(count), str(times)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300)
        found = json.loads(done.stdout)
        words = f"{count:,} objects"
        yield alone(f"no-op pass, {words}", "s", found["seconds"], "< 1 s")
        yield alone(f"no-op pass, {words}: CPU", "s", found["cpu"], "< 1 s")
        flux = "Flux: 223" if count == 1000 else None
        yield alone(f"no-op pass, {words}: memory", "MiB", [statistics.median(found["mib"])], "< 100", flux)
