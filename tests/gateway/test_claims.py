"""What the README says that the endpoint does not have yet, asked of a real gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Start

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages", "/v1/embeddings"])
async def test_an_api_surface_that_the_readme_calls_missing_is_404(start: Start, path: str) -> None:
    assert f"`{path}`" in README.split("## Not there yet")[1]
    cluster = await start()

    async with cluster.http.post(cluster.url(path), json={"model": "llama"}) as answer:
        assert answer.status == 404


async def test_no_path_asks_for_a_key_and_none_shows_a_web_page(start: Start) -> None:
    cluster = await start()

    for path in ("/", "/v1/models", "/health", "/metrics"):
        async with cluster.http.get(cluster.url(path)) as answer:
            assert answer.status != 401
            assert not answer.headers["content-type"].startswith("text/html")
