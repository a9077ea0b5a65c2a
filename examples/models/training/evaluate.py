"""Measure the tiny model through mlx_lm: known questions, unseen tool arguments, long answers.

python examples/models/training/evaluate.py examples/models/tiny
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import UNKNOWN, Corpus, read_answers
from mlx_lm.generate import batch_generate
from mlx_lm.utils import load
from values import is_held_out, unseen_values

Message = dict[str, Any]

LONG = (
    "Count from 1 to 100.",
    "Count to 100.",
    "Count from 1 to 80.",
    "Recite the alphabet three times.",
    "Recite the alphabet four times.",
    "Explain reconciler in detail.",
    "Tell me a story.",
    "List the rules of reconciler.",
    "Describe how a group is formed.",
)
NOT_KNOWN = (
    "What is the capital of France?",
    "Who wrote Hamlet?",
    "How do I bake bread?",
    "What is 17 times 23?",
    "Translate good morning into Spanish.",
    "Why is the sky blue?",
    "What is a volcano?",
    "Who is the president?",
    "Tell me a joke.",
    "What is the weather in Lagos?",
)


def offered(name: str, parameter: str, description: str) -> dict[str, Any]:
    """Write a tool with one string parameter as an OpenAI client offers it."""
    parameters = {
        "type": "object",
        "properties": {parameter: {"type": "string", "description": f"The {parameter} to use."}},
        "required": [parameter],
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = (
    offered("get_node", "name", "Get the status of a node."),
    offered("get_weather", "city", "Get the current weather in a city."),
    offered("restart_deployment", "deployment", "Restart a deployment."),
    offered("lookup", "query", "Look something up."),
)
REQUESTS = (
    (0, "Show the node {v}."),
    (0, "What is the status of {v}?"),
    (1, "What is the weather in {v}?"),
    (1, "How is the weather in {v} today?"),
    (2, "Please restart the deployment {v}."),
    (2, "Restart {v}."),
    (3, "Look up {v}."),
    (3, "Use lookup for {v}."),
)


@dataclass(frozen=True)
class Case:
    """One call that is expected: what is asked with which tools, and the right call."""

    messages: list[Message]
    tools: list[dict[str, Any]]
    call: dict[str, Any]


class Tiny:
    """The model and its tokenizer, answering many conversations at once, greedily."""

    def __init__(self, folder: Path) -> None:
        """Load the model from `folder`."""
        loaded = load(str(folder))
        self.model, self.tokenizer = loaded[0], loaded[1]

    def prompt(self, messages: list[Message], tools: list[dict[str, Any]] | None = None) -> list[int]:
        """Turn a conversation into tokens, ready for the answer."""
        tokens: list[int] = self.tokenizer.apply_chat_template(
            messages, tools=tools, add_generation_prompt=True
        )
        return tokens

    def answers(self, prompts: list[list[int]], most: int = 160) -> list[str]:
        """Answer every prompt with at most `most` tokens."""
        texts: list[str] = batch_generate(self.model, self.tokenizer, prompts, max_tokens=most).texts
        return texts

    def ask(self, questions: list[str], most: int = 160) -> list[str]:
        """Answer every question, each in a conversation of its own."""
        return self.answers([self.prompt([{"role": "user", "content": q}]) for q in questions], most)

    def call(self, text: str) -> dict[str, Any] | None:
        """Parse the tool call in an answer as mlx_lm does; None if there is none."""
        start, end = self.tokenizer.tool_call_start, self.tokenizer.tool_call_end
        if text.count(start) != 1 or not text.endswith(end):
            return None
        try:
            found: dict[str, Any] = self.tokenizer.tool_parser(text.split(start)[1].removesuffix(end), None)
        except ValueError:
            return None
        return found


def tool_cases(values: list[str], seed: int, most: int = 4) -> list[Case]:
    """Ask for a tool with each value: up to `most` tools, system messages, earlier turns."""
    rng = random.Random(seed)
    cases = []
    for value in values:
        wanted, form = rng.choice(REQUESTS)
        others = [tool for tool in TOOLS if tool is not TOOLS[wanted]]
        tools = [TOOLS[wanted], *rng.sample(others, min(most - 1, rng.choice((0, 0, 1, 3))))]
        rng.shuffle(tools)
        messages: list[Message] = []
        if rng.random() < 0.4:
            messages.append({"role": "system", "content": "You are a helpful assistant."})
        if rng.random() < 0.3:
            messages.append({"role": "user", "content": "Hello"})
            messages.append({"role": "assistant", "content": "Hello! Ask me something about reconciler."})
        messages.append({"role": "user", "content": form.format(v=value)})
        function = TOOLS[wanted]["function"]
        parameter = next(iter(function["parameters"]["properties"]))
        cases.append(Case(messages, tools, {"name": function["name"], "arguments": {parameter: value}}))
    return cases


def judge_calls(tiny: Tiny, cases: list[Case], show: bool = False) -> tuple[int, int]:
    """Count the cases whose value is copied to the letter, and those whose whole call is right."""
    answers = tiny.answers([tiny.prompt(case.messages, case.tools) for case in cases])
    copied = right = 0
    for case, answer in zip(cases, answers, strict=True):
        call = tiny.call(answer) or {}
        wanted = list(case.call["arguments"].values())
        copied += list(call.get("arguments", {}).values()) == wanted
        right += call == case.call
        if show and call != case.call:
            print(f"    wrong: {case.messages[-1]['content']!r} -> {answer!r}")
    return copied, right


def right_answers(tiny: Tiny, pairs: list[tuple[str, str]], most: int = 160, show: bool = True) -> int:
    """Count the questions that are answered word for word."""
    right = 0
    for (question, wanted), answer in zip(pairs, tiny.ask([q for q, _ in pairs], most), strict=True):
        right += answer == wanted
        if show and answer != wanted:
            print(f"    wrong: {question!r} -> {answer!r}")
    return right


def report(tiny: Tiny) -> None:
    """Measure everything and print a table."""
    rows: list[tuple[str, int, int]] = []
    entries = read_answers()["answers"]

    first = [(e["questions"][0], e["answer"]) for e in entries]
    rows.append(("fixed questions", right_answers(tiny, first), len(first)))
    every = [(q, e["answer"]) for e in entries for q in e["questions"]]
    rows.append(("all their wordings", right_answers(tiny, every), len(every)))
    corpus = Corpus(4711)
    varied = [(corpus.vary(q), a) for q, a in every]
    rows.append(("varied: case, punctuation, greeting", right_answers(tiny, varied), len(varied)))
    strange = [(question, UNKNOWN) for question in NOT_KNOWN]
    rows.append(("not known, and says so", right_answers(tiny, strange), len(strange)))

    written = json.loads(Path(__file__).with_name("unseen.json").read_text())
    assert all(is_held_out(value) for value in written)
    for sort, given in (("written", written), ("random", unseen_values(99, 200))):
        for most in (1, 4):
            copied, right = judge_calls(tiny, tool_cases(given, 2, most), True)
            offer = "one tool" if most == 1 else "one to four tools"
            rows.append((f"{sort} unseen values, {offer}: copied", copied, len(given)))
            rows.append((f"{sort} unseen values, {offer}: right call", right, len(given)))

    for name, right, of in rows:
        print(f"{name:52s} {right:4d} of {of:4d}  {100 * right / of:5.1f} %")
    for question, answer in zip(LONG, tiny.ask(list(LONG), 600), strict=True):
        size = len(tiny.tokenizer.encode(answer, add_special_tokens=False))
        print(f"{question:40s} {size:4d} tokens  ...{answer[-40:]!r}")


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, help="the folder of the model")
    started = time.monotonic()
    report(Tiny(parser.parse_args().model))
    print(f"measured in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
