"""What a gateway that is killed has written of what its keys have used."""

from __future__ import annotations

from pathlib import Path

from reconciler.gateway.errors import ApiError
from reconciler.gateway.keys.caller import Caller
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.usage import Usage
from reconciler.gateway.keys.usage_file import UsageFile, read
from reconciler.wire.keys import AccessKey


class _Running:
    """A request that goes on."""

    def __init__(self) -> None:
        self.so_far = Usage()

    def usage(self, answers: int) -> Usage:
        return self.so_far

    def end(self, error: ApiError) -> None:
        raise AssertionError("nobody ends it")


async def test_the_file_follows_a_request_that_runs_alone(tmp_path: Path) -> None:
    path, desk, request = tmp_path / "usage.json", Desk(lambda: 1000.0, lambda: 1.0), _Running()
    file = UsageFile(path, desk)
    caller = Caller("key agent", AccessKey("agent", ()))
    with await desk.admit(caller, (), 1, request):
        for tokens in (10, 500):
            request.so_far = Usage(3, tokens)
            file.save()
            assert [each.tokens for each in read(path)] == [3 + tokens]
    file.save()
    written = path.stat()
    file.save()
    assert path.stat() == written, "nothing runs, and nothing has changed"
