"""One gateway takes over from another that counts in a store: to the store, it is the same one."""

from __future__ import annotations

import pytest

from reconciler.wire.gateway import LimitsStore
from tests.gateway.handover.load import check_switches

from .redis import redis

pytestmark = pytest.mark.needs("redis-server")


@pytest.mark.second_tier
async def test_nobody_is_refused_and_all_is_counted_where_a_store_counts() -> None:
    with redis() as server:
        await check_switches(limits_store=LimitsStore(server.address, "test"), nodes=("another",))
