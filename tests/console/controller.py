"""A controller as the console sees it: answers at a Unix socket what real ones have answered. Run it with the socket's path."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from reconciler.remote.rpc import RpcServer
from reconciler.wire.admin import (
    CONTROLLER_RECEIVES_FROM_CLI,
    Answer,
    Get,
    ListCommits,
    ListEvents,
    ListIncidents,
    ShowMetrics,
    ShowPlan,
    ShowSource,
    ShowStatus,
    ShowUsage,
)

from .snapshots import RECORDED, history


class Recorded:
    """What a real controller has answered. Nothing ever changes: who waits for a change waits for as long as is asked for."""

    def __init__(self, recording: str) -> None:
        self._answers = json.loads((RECORDED / f"{recording}.json").read_text())

    async def answer(self, message: Any) -> Answer:
        """Return the answer to a question of the console."""
        answers = self._answers
        if getattr(message, "seen", "") or getattr(message, "after", 0):
            await asyncio.sleep(message.wait_seconds)
        match message:
            case Get("Rank"):
                return Answer(answers["ranks"])
            case Get("Operation"):
                return Answer({"items": []})
            case Get():
                return Answer({"version": "1", **answers["objects"]})
            case ListEvents():
                last = max(each["id"] for each in answers["events"]["items"])
                items = [] if message.after else answers["events"]["items"]
                return Answer({"items": items, "last": last})
            case ListIncidents():
                return Answer({"version": "1", **answers["incidents"]})
            case ListCommits():
                return Answer({"version": "1", "items": [], "problem": None})
            case ShowPlan():
                return Answer(answers["plan"])
            case ShowSource():
                return Answer({})
            case ShowStatus():
                return Answer(answers["status"])
            case ShowMetrics():
                return Answer(history(message.seconds, message.points))
            case ShowUsage():
                return Answer(answers["usage"])
            case _:
                raise AssertionError(message)


async def serve(path: Path, recording: str) -> None:
    """Answer until this process ends."""
    server = RpcServer(path, CONTROLLER_RECEIVES_FROM_CLI, Recorded(recording).answer)
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), "four-macs"))
