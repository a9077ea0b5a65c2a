"""Models whose chat template is missing or broken: completions work, conversations say what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.runner.examination import examine
from reconciler.wire.generation import Failed, Finished
from tests.runner.ranks import Client, connected, running

TEMPLATES = {
    "missing": (None, "this model has no chat template: use /v1/completions, or correct chat_template.jinja"),
    "broken": ("{% for m in messages %}\n{{ m.content }", "this model's chat template is broken (line 2: "),
}


@pytest.fixture(params=TEMPLATES)
async def rank(request: pytest.FixtureRequest, copy: Path) -> AsyncIterator[tuple[str, Client]]:
    text, sentence = TEMPLATES[request.param]
    (copy / "chat_template.jinja").unlink()
    if text is not None:
        (copy / "chat_template.jinja").write_text(text)
    assert "problem" not in examine(copy)
    with running(copy, 1) as group:
        async with connected(group.ready().socket) as client:
            yield sentence, client


async def test_conversations_are_refused_with_what_to_change_and_completions_work(
    rank: tuple[str, Client],
) -> None:
    sentence, client = rank
    for number in range(2):
        refused = (await client.ask(f"chat-{number}", "Hello")).last
        assert isinstance(refused, Failed)
        assert (refused.code, refused.parameter) == ("invalid_request", "messages")
        assert refused.text.startswith(sentence)
    done = await client.ask("text", "", messages=(), prompt="Hello", tokens_max=3)
    assert isinstance(done.last, Finished)
    assert len(done.tokens) == 3
