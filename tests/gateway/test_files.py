"""The gateway's files, while another gateway may be taking over."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from reconciler.gateway.files import Files
from reconciler.gateway.handover.heir import Heir
from reconciler.gateway.handover.messages import Waiting
from reconciler.gateway.routing import quarantine_file
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.reach import Reach
from reconciler.gateway.routing.routes import RoutesFile
from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.handover import OLD_RECEIVES
from reconciler.wire.prompts import QuarantinedPrompt


async def test_prompts_that_are_quarantined_while_nothing_comes_of_a_hand_over_are_written(
    tmp_path: Path,
) -> None:
    pool = Pool(RoutesFile(tmp_path / "routes.json"), Timing(), Reach(tmp_path / "key").connect, time.time)
    files = Files(tmp_path, pool, None)
    prompt = QuarantinedPrompt("llama", "0" * 64, "r", "1 message", (), time.time(), time.time() + 1000.0)
    one, other = socket.socketpair()
    with one, other:
        heir = Heir(Waiting(one, OLD_RECEIVES), pool.desk, files.since_handed)
        files.bequeath(heir)
        files.quarantine((prompt,))
        heir.forget()
        files.bequeath(None)
    assert quarantine_file.read(tmp_path / "prompts.json") == (prompt,)
    files.close()
    pool.close()
