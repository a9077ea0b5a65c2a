"""The scripted model says what its script wants, whatever came before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clients.scripted import model_file, weights

SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "task": [
        {"say": "First I read.", "calls": [{"name": "read", "arguments": {"path": "{folder}/a.txt"}}]},
        {"say": "It says {seen:[0-9]+}."},
    ]
}
TOOLS = "<|im_start|>system\nTools:\nread(path) Reads.<|im_end|>\n"
ASKED = '<|im_start|>user\n"Follow the script task in /tmp/x-1."<|im_end|>\n'
NEXT = "<|im_start|>assistant\n"
CALL = 'First I read.\n<tool_call>\n{"name": "read", "arguments": {"path": "/tmp/x-1/a.txt"}}\n</tool_call>'
RESULT = "<|im_start|>user\n<tool_response>\n 42 lines\n</tool_response><|im_end|>\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights.write(tmp_path / "tiny", SCRIPTS)
    monkeypatch.setattr(model_file, "FOLDER", tmp_path / "tiny")


@pytest.mark.parametrize(
    ("conversation", "text"),
    [
        (TOOLS + ASKED + NEXT, CALL),
        (TOOLS + ASKED + NEXT + CALL + "<|im_end|>\n" + RESULT + NEXT, "It says 42."),
        (ASKED + NEXT, model_file.UNTOOLED),
        ("<|im_start|>user\nHello<|im_end|>\n" + NEXT, model_file.UNSCRIPTED),
        (TOOLS + ASKED + 2 * (NEXT + "x<|im_end|>\n") + NEXT, model_file.OVER),
    ],
)
def test_the_step_follows_from_the_conversation(conversation: str, text: str) -> None:
    assert model_file.plan(conversation, SCRIPTS) == (text, 0.0)


@pytest.mark.parametrize("said", ["", '{"city"', '{"city":', '{ "city"  :\n"Par'])
def test_an_answer_goes_on_from_what_was_said_with_whatever_spaces(said: str) -> None:
    wanted, texts = '{"city": "Paris"}', model_file._vocabulary()[0]
    answer = said.encode()
    for _ in range(100):
        scores = model_file.following(wanted.encode(), answer)
        token = max(scores, key=lambda token: scores[token])
        if token == model_file.END:
            break
        answer += texts[token]
    assert b"".join(answer.split()) == b'{"city":"Paris"}'


def test_what_is_no_conversation_ends_with_a_full_stop() -> None:
    texts = model_file._vocabulary()[1]
    full_stop, word = texts[b"."], texts[b"a"]
    assert set(model_file.after([word])[0]) == {full_stop}
    assert set(model_file.after([word, full_stop])[0]) == {model_file.END}
