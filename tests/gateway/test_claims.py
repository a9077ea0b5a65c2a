"""What the README says that the endpoint does not have yet, asked of a real gateway."""

from __future__ import annotations

from .conftest import Start


async def test_no_path_asks_for_a_key_and_none_shows_a_web_page(start: Start) -> None:
    cluster = await start()

    for path in ("/", "/v1/models", "/health", "/metrics"):
        async with cluster.http.get(cluster.url(path)) as answer:
            assert answer.status != 401
            assert not answer.headers["content-type"].startswith("text/html")
