"""Entry point of a fetcher: it reads one job, writes progress, and ends with the agent that started it."""

from __future__ import annotations

import json
import os
import sys
import threading

from reconciler.wire.codec import from_wire
from reconciler.wire.weights import FetchJob, FetchProblem

from .problems import Unfetched
from .progress import ProgressReport

EXIT_WITHOUT = 1


def main() -> int:
    """Fetch the weights of the job on standard input. Return 0 on success."""
    report = ProgressReport(os.dup(1))
    os.dup2(2, 1)  # only progress may reach standard output, even if libraries print
    job = from_wire(FetchJob, json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_agent, name="wait for the end of the agent", daemon=True).start()
    try:
        from .fetch import fetch
    except ImportError as error:
        text = f"{sys.executable} has no {error.name}; install it there: {sys.executable} -m pip install huggingface_hub httpx2"
        report.fail(FetchProblem.NO_CLIENT, text)
        return EXIT_WITHOUT
    try:
        files = fetch(job, report)
    except Unfetched as error:
        report.fail(error.problem, str(error), error.files)
        return EXIT_WITHOUT
    report.end(files)
    return 0


def _end_with_agent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(EXIT_WITHOUT)


if __name__ == "__main__":
    sys.exit(main())
