"""What is said of the newest version of a client beside the pinned one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from . import installing
from .installing import folder_of, forget_others
from .newest import UNKNOWN, compared, unknown
from .outcome import Outcome
from .rows import CHAT, JAVA, NODE, PYTHON, Client

OPENAI = Client("openai", PYTHON, ["openai[aiohttp]==3.57.0"], CHAT)
AI = Client("AI SDK", NODE, ["ai@6.0.1", "@ai-sdk/openai@3.0.1"], CHAT)
JDK = Client("JDK", JAVA, ["openjdk@17"], CHAT)


def of(client: Client, version: str, **wrong: str) -> Outcome:
    name = client.packages[0].partition("==")[0]
    newer = dataclasses.replace(client, packages=[f"{name}=={version}"])
    return Outcome(newer, {"text": "", "stream": "", **wrong})


def test_the_newest_that_fails_where_the_pinned_passes_is_named() -> None:
    pinned, newest = of(OPENAI, "3.57.0"), of(OPENAI, "3.58.0", stream="no end")
    assert [" ".join(line.split()) for line in compared([pinned, newest])] == [
        "client surface pinned newest",
        "openai chat 3.57.0 passed 3.58.0 failed",
        "openai: 3.58.0 fails where 3.57.0 passes: stream",
    ]


@pytest.mark.parametrize(
    ("outcomes", "row"),
    [
        ([of(OPENAI, "3.57.0")], "openai chat 3.57.0 passed 3.57.0 passed"),
        (
            [of(OPENAI, "3.57.0", text="x"), of(OPENAI, "3.58.0")],
            "openai chat 3.57.0 failed 3.58.0 passed",
        ),
        (
            [of(OPENAI, "3.57.0", text="x"), of(OPENAI, "3.58.0", text="x")],
            "openai chat 3.57.0 failed 3.58.0 failed",
        ),
    ],
)
def test_nothing_else_is_said_of_others(outcomes: list[Outcome], row: str) -> None:
    assert [" ".join(line.split()) for line in compared(outcomes)[1:]] == [row]


def test_a_newest_version_that_is_unknown_is_no_newest_that_fails() -> None:
    nobody = of(OPENAI, UNKNOWN, text="no answer")
    assert compared([of(OPENAI, "3.57.0"), nobody])[2:] == [
        "openai: nobody says which version is the newest: no answer"
    ]


def test_a_version_that_no_registry_tells_is_that_of_every_package_but_a_jdk() -> None:
    assert unknown(OPENAI).packages == [f"openai[aiohttp]=={UNKNOWN}"]
    assert unknown(AI).packages == [f"ai@{UNKNOWN}", f"@ai-sdk/openai@{UNKNOWN}"]
    assert unknown(JDK) == JDK


def test_versions_of_the_same_package_alone_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "CACHE", tmp_path)
    pinned, newest, older, other = (
        folder_of(PYTHON, [package])
        for package in ("openai==3.57.0", "openai==3.59.0", "openai==3.58.0", "openai-agents==0.24.0")
    )
    for folder in (pinned, newest, older, other):
        folder.mkdir(parents=True)
    forget_others(PYTHON, [pinned, newest])
    assert set((tmp_path / PYTHON).iterdir()) == {pinned, newest, other}
