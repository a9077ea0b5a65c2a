"""``docs/clients.md`` and ``make clients`` are the same: every client that is run stands there, and what stands there is run."""

from __future__ import annotations

import pytest

from .agents import AGENTS
from .documents import ENDPOINT, NOT_RUN, PAGE, blocks, sections
from .open_webui import OPEN_WEBUI
from .rows import JAVA, NODE, PYTHON, SDKS, Client

RUN = {client.name: client for client in (*SDKS, *(agent.client for agent in AGENTS), OPEN_WEBUI)}


def clients() -> dict[str, str]:
    """The sections about clients: those of the third level."""
    titles = [line[4:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("### ")]
    return {title: sections()[title] for title in titles}


def test_each_section_is_of_a_client_that_is_run_or_says_why_not() -> None:
    assert {name for name, text in clients().items() if NOT_RUN not in text} == set(RUN)


@pytest.mark.parametrize("client", RUN.values(), ids=lambda client: client.name)
def test_a_section_has_the_lines_that_are_run_and_the_version(client: Client) -> None:
    languages = {block.language for block in blocks(client.name) if not block.file}
    if client.program:
        assert languages == {{PYTHON: "python", NODE: "js", JAVA: "java"}[client.kind]}
    assert any(ENDPOINT in block.text for block in blocks(client.name))
    package = client.packages[0]
    named = [text for text in clients().values() if package.split("==")[0].rsplit("@", 1)[0] in text]
    assert any(client.version in text for text in named)


def test_the_command_of_a_block_is_the_one_that_is_run() -> None:
    for agent in AGENTS:
        (shell,) = [block for block in blocks(agent.client.name) if block.language == "sh"]
        words = shell.text.splitlines()[-1].split()
        assert words == list(agent.command[: len(words)])
