"""Every chat template of llama.cpp's collection: a call parsed back token by token, reasoning split, a second turn.

Where the vocabulary of a template's models is to be had, all of it is done with that too.

The table of the results is a part of ``docs/models.md``; ``UPDATE_GOLDEN=1`` writes it anew.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Vocabulary

from reconciler.runner.decode.answer import Answer
from reconciler.runner.model.adapter import FOREIGN_ERRORS, Tokenizer
from reconciler.runner.requests.conversation import render
from reconciler.runner.requests.prompt import tools_problem
from tests.runner.ranks import Reply, question

from .collection import templates
from .vocabularies import ENDS, QWEN, TEMPLATES, VOCABULARIES
from .writers import WRITERS

pytestmark = pytest.mark.timeout(1800)

DOCUMENT = Path(__file__).parents[3] / "docs" / "models.md"
BEGIN, END = "<!-- chat templates: begin -->", "<!-- chat templates: end -->"
HEAD = (
    "| chat template | shows tools | family of its calls | call | reasoning | second turn | real vocabulary |\n"
    "|---|---|---|---|---|---|---|\n"
)
SPECIAL = re.compile(
    r"<\|[^|<>\s]+\|?>|<[a-z_]+\|>|<｜[^｜\s]+｜>|｜DSML｜|\[/?[A-Z_]+\]|\]<\]minimax\[>\[|\[e~\[|\]~b\]|<\|\"\|>"
    r"|</?seed:[a-z]+>|</?SPECIAL_\d+>|<end_of_[a-z]+>|<sep>|</assistant>|<EOS>|<BOS>"
)
"""What a model of the family has as one token."""
UNNAMED: Mapping[str, Sequence[str]] = {
    "LFM2.5-Instruct": ("<|tool_call_start|>", "<|tool_call_end|>"),
    "tencent-Hy3": ("<｜hy_eos:opensource｜>",),
}
"""Special tokens that a template puts together, or does not name (mlx_lm/tokenizer_utils.py says so of LFM2.5)."""
PLAIN = re.compile(r"\[/?(BEGIN|END)[A-Z_]*\]")
ARGUMENTS = {"city": 'Zo\u00eb "</b>"\n', "days": 3, "opts": {"a": [1, 2]}}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "days": {"type": "integer", "description": "For how long."},
                "opts": {
                    "type": "object",
                    "description": "More.",
                    "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
                },
            },
            "required": ["city"],
        },
    },
}
USER = {"role": "user", "content": "hi"}


def tokenizer_of(template: str, folder: Path, more: Sequence[str] = ()) -> Tokenizer:
    """A byte-level tokenizer with the template, and with what it writes in brackets as special tokens."""
    named = {token for token in SPECIAL.findall(template) if not PLAIN.match(token)}
    special = sorted(named | {"<EOS>", "<BOS>"} | set(more))
    tokens = special + sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = Vocabulary(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[]))
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary.decoder = decoders.ByteLevel()
    vocabulary.add_special_tokens([AddedToken(token, special=True) for token in special])
    vocabulary.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<EOS>", "bos_token": "<BOS>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(template)
    return Tokenizer(load(folder))


def real_tokenizer_of(
    template: str, folder: Path, vocabulary: str, words: str, more: Sequence[str] = ()
) -> Tokenizer:
    """A tokenizer with a real vocabulary, ``words``, and the template. What the template writes in brackets and the
    vocabulary does not have, newer models have in place of reserved tokens: they become tokens here too."""
    found = Vocabulary.from_str(words)
    first, last = ENDS[vocabulary]
    named = {token for token in SPECIAL.findall(template) if not PLAIN.match(token)}
    found.add_tokens(
        [AddedToken(token) for token in QWEN if token in template and vocabulary.startswith("qwen")]
    )
    absent = sorted(
        (named | {first, last} | set(more)) - {t.content for t in found.get_added_tokens_decoder().values()}
    )
    found.add_special_tokens([AddedToken(token, special=True) for token in absent])
    found.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": last, "bos_token": first}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(template)
    return Tokenizer(load(folder))


def call_message(reasoning: str) -> dict[str, Any]:
    call = {"id": "functions.get_weather:0", "type": "function"}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    if reasoning:
        message |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), reasoning)
    return {**message, "tool_calls": [{**call, "function": {"name": "get_weather", "arguments": ARGUMENTS}}]}


def shared(prompt: str, written: str) -> str:
    """The beginning of a prompt, to the end of one of its markers, with which a conversation begins too."""
    while not written.startswith(prompt):
        pieces = re.split(r"(<[^<>]*>|\[[^\[\]]*\]|\n)", prompt)
        prompt = "".join(pieces[:-2]) if len(pieces) > 2 else ""
    return prompt


@dataclasses.dataclass
class Row:
    """What one template does."""

    tokenizer: Tokenizer

    def rendered(self, messages: list[dict[str, Any]], prompt: bool) -> str:
        return str(
            self.tokenizer._encoding.apply_chat_template(
                messages, tools=[TOOL], add_generation_prompt=prompt, tokenize=False
            )
        )

    def split(self, reasoning: str) -> tuple[str, str]:
        """The prompt, and the turn with the call as the template writes it; else as its family is known to."""
        prompt = self.rendered([USER], prompt=True)
        written = ""
        for arguments in (ARGUMENTS, json.dumps(ARGUMENTS, ensure_ascii=False)):
            message = call_message(reasoning)
            message["tool_calls"][0]["function"]["arguments"] = arguments
            message["tool_calls"][0]["id"] = "abcdefghi"
            try:
                written = self.rendered([USER, message], prompt=False)
                break
            except FOREIGN_ERRORS:
                continue
        before = shared(prompt, written)
        turn = written[len(before) :]
        if "get_weather" in turn and len(prompt) - len(before) < 60:
            return before, turn
        return prompt, WRITERS[self.tokenizer.known.family.name]([("get_weather", ARGUMENTS)])

    def read(self, prompt: str, turn: str) -> Reply:
        tokens = self.tokenizer.rendered(prompt)
        answer = Answer(question("a", "", tools=(TOOL,)), tokens, self.tokenizer)
        events: list[Any] = []
        for token in self.tokenizer.rendered(turn):
            answer.take(token)
            if answer.stopped:
                break
            events += answer.events()
        return Reply([*events, *answer.finish("stop")])

    def call(self) -> str:
        reply = self.read(*self.split(""))
        calls = [(name, json.loads(arguments)) for name, arguments in reply.calls]
        if calls != [("get_weather", ARGUMENTS)]:
            return f"LOST {reply.text!r:.60}"
        return "parsed" if not reply.text.strip() else f"LEAK {reply.text!r:.60}"

    def reasoning(self) -> str:
        family = self.tokenizer.known.family
        prompt, turn = self.split("Think.")
        begun = self.rendered([USER], prompt=True)
        opened = family.opened(begun)
        if opened and begun != prompt:
            prompt, turn = begun, "Think." + opened + turn.split(opened)[-1]
        elif "Think." not in turn and family.thinking:
            start, end = family.thinking[0]
            turn = ("" if opened else start) + "Think." + end + turn
        elif "Think." not in turn:
            return "none"
        reply = self.read(prompt, turn)
        ok = reply.reasoning == "Think." and len(reply.calls) == 1 and not reply.text.strip()
        return "split" if ok else f"LOST {reply.reasoning!r:.30} {reply.text!r:.60}"

    def second_turn(self) -> str:
        result = {
            "role": "tool",
            "tool_call_id": "functions.get_weather:0",
            "name": "get_weather",
            "content": "sunny",
        }
        try:
            text = render([USER, call_message(""), result], [TOOL], self.tokenizer).text
        except FOREIGN_ERRORS as error:
            return f"raises: {str(error).splitlines()[0]}".replace("|", "\\|")
        return "rendered" if "sunny" in text else "result left out"

    def cells(self) -> list[str]:
        known = self.tokenizer.known
        name = known.family.name if known.family.format else "unknown"
        problem = tools_problem(self.tokenizer)
        if problem:
            shown = "yes" if "not known here" in problem else "no"
            return [shown, name, "tools are refused", "", ""]
        return ["yes", name, self.call(), self.reasoning(), self.second_turn()]


def with_bytes(name: str, template: str, folder: Path) -> list[str]:
    """What a template does with tokens of single bytes."""
    folder.mkdir()
    return Row(tokenizer_of(template, folder, UNNAMED.get(name, ()))).cells()


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each template does with tokens of single bytes, and with those of a real vocabulary where there is one."""
    words = {name: make().to_str() for name, make in VOCABULARIES.items()}
    templates_folder, found = tmp_path_factory.mktemp("templates"), {}
    for name, template in templates().items():
        more, real = UNNAMED.get(name, ()), TEMPLATES.get(name)
        cells = with_bytes(name, template, templates_folder / name)
        if real is not None:
            folder = tmp_path_factory.mktemp("real")
            others = Row(real_tokenizer_of(template, folder, real, words[real], more)).cells()
            real = real if others == cells else f"LOST with {real}: {', '.join(others)}"
            shutil.rmtree(folder)
        found[name] = [*cells, real or ""]
    return found


def documented() -> dict[str, list[str]]:
    """The table of the document."""
    rows = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()[3:]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows if row]
    return {name.strip(): [each.strip() for each in more] for name, *more in cells}


@pytest.mark.second_tier
def test_every_fifth_template_does_what_the_document_says(tmp_path: Path) -> None:
    """``table`` takes a minute."""
    said = documented()
    assert said.keys() == templates().keys()
    for name, template in list(templates().items())[::5]:
        assert with_bytes(name, template, tmp_path / name) == said[name][:-1]


@pytest.mark.nightly
def test_no_template_that_shows_tools_loses_a_call_or_reasoning(table: dict[str, list[str]]) -> None:
    assert len(table) == 70
    wrong = {name: cells for name, cells in table.items() if "LOST" in str(cells) or "LEAK" in str(cells)}
    assert wrong == {}
    unread = [name for name, (shows, _, call, *_) in table.items() if shows == "yes" and call != "parsed"]
    assert unread == ["CohereForAI-c4ai-command-r-plus-tool_use"], "they are refused, never read as text"


@pytest.mark.nightly
def test_the_table_of_the_document_is_what_was_found(table: dict[str, list[str]]) -> None:
    rows = "".join(f"| {name} | {' | '.join(cells)} |\n" for name, cells in table.items())
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    now = f"{before}{BEGIN}\n{HEAD}{rows}{END}{after}"
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(now)
    assert DOCUMENT.read_text() == now
