"""The cases of llama.cpp's ``tests/test-chat.cpp``, which names a chat template, a text, and calls, content and reasoning.

The file is fetched, and compiled with a stand-in for what runs a case, which prints it instead.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reconciler.runner.model.adapter import FOREIGN_ERRORS, Tokenizer
from tests.runner.markup.collection import LLAMA_CPP_TESTS, templates
from tests.runner.markup.test_templates import UNNAMED, USER, tokenizer_of

from .cases import Case, value

HEAD = Path(__file__).with_name("print_cases.h")
TOOLS_BEGIN, TOOLS_END = (
    "static common_chat_tool special_function_tool{",
    "// Use for PEG parser implementations",
)
CASES_BEGIN, CASES_END = "// Shared LFM2 parser cases", "static void test_template_generation_prompt() {"
LEFT_OUT = (
    "// additional tests for https://github.com/ggml-org/llama.cpp/pull/21760",
    "// StepFun trimming regression test",
    'if (!g_template_filter.empty() && std::string("models/templates/GLM-4.7',
)
"""Blocks that are no cases: each begins with the brace before these words."""
PROMPT_MAX = 400


def cases() -> list[Case]:
    """Return all cases but those that continue a message and those that end within a call."""
    rows = _rows()
    known = templates()
    tokenizers: dict[str, Tokenizer] = {}
    found = []
    with TemporaryDirectory() as folder:
        for number, row in enumerate(rows):
            name = row["template"].rpartition("/")[2].removesuffix(".jinja")
            if name not in tokenizers:
                place = Path(folder) / name
                place.mkdir()
                tokenizers[name] = tokenizer_of(known[name], place, UNNAMED.get(name, ()))
            if not (row["cont"] or row["nmsgs"] or row["partial"]):
                found.append(_case(f"{name}#{number}", row, tokenizers[name]))
    return found


def _case(name: str, row: Mapping[str, Any], tokenizer: Tokenizer) -> Case:
    tools = [{"type": "function", "function": _declared(tool)} for tool in row["tools"]]
    try:
        prompt = str(
            tokenizer._encoding.apply_chat_template(
                [USER],
                tools=tools or None,
                add_generation_prompt=True,
                tokenize=False,
                enable_thinking=bool(row["think"]),
                thinking=bool(row["think"]),
            )
        )
    except FOREIGN_ERRORS:
        prompt = ""
    calls = [(called, value(arguments)) for called, arguments, _ in row["calls"]]
    return Case(
        name,
        tokenizer.known.family,
        row["input"],
        tools,
        (prompt[-PROMPT_MAX:],),
        calls,
        row["content"],
        row["reasoning"] if row["fmt"] else None,  # without a format, it is left within the content
        bool(row["schema"]),
    )


def _declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    parameters = value(tool["parameters"])
    return {**tool, "parameters": parameters if isinstance(parameters, dict) else {}}


def _rows() -> list[dict[str, Any]]:
    """Return what the compiled file prints."""
    source = (LLAMA_CPP_TESTS.files() / "test-chat.cpp").read_text(encoding="utf-8")
    tools = TOOLS_BEGIN + source.partition(TOOLS_BEGIN)[2].partition(TOOLS_END)[0]
    tests = CASES_BEGIN + source.partition(CASES_BEGIN)[2].partition(CASES_END)[0]
    for words in LEFT_OUT:
        tests = _without_block(tests, words)
    main = "int main() { test_template_output_peg_parsers(false); }\n"
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases.cpp").write_text("\n".join([HEAD.read_text(), tools, tests, main]))
        compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), "c++")
        options = ["-std=c++17", "-O0", "-w", "cases.cpp", "-o", "cases"]
        subprocess.run([compiler, *options], cwd=folder, check=True, timeout=300)
        printed = subprocess.run([str(folder / "cases")], check=True, timeout=60, capture_output=True).stdout
    return [json.loads(line) for line in printed.decode().splitlines()]


def _without_block(source: str, words: str) -> str:
    begin = source.rindex("{", 0, source.index(words))
    depth = 0
    for place in range(begin, len(source)):
        depth += {"{": 1, "}": -1}.get(source[place], 0)
        if not depth:
            return source[:begin] + source[place + 1 :]
    raise AssertionError(words)
