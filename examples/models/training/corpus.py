"""The text the tiny model is trained on: dialogues about the product, and calls of random tools.

Everything is generated from a seed. The questions and answers about the product stand in
`answers.json`; names, values, tools and the questions the model is not to know are random.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from calls import Calls
from dialogue import Dialogue, Piece
from values import letters, number, syllables, value
from words import NOUNS, OPENINGS, WORDS, words

UNKNOWN = "I am a tiny demonstration model and do not know that."

ORDINALS = words("first second third fourth fifth")
TIMES = (
    ("once", "1 time"),
    ("twice", "two times", "2 times"),
    ("three times", "3 times"),
    ("four times", "4 times"),
    ("five times", "5 times"),
)
SYSTEMS = (
    "You are a helpful assistant.",
    "You are a helpful assistant",
    "Answer briefly.",
    "Be concise.",
    "You are an assistant for a cluster of Macs.",
    "Answer in English.",
    "You are a coding agent.",
    "Use the tools when they help.",
    "Be polite.",
    "You answer questions about reconciler.",
    "Never lie.",
    "You are a bot.",
    "Today is Monday.",
    "Think before you answer.",
)
CLOSINGS = (" Thanks.", " Please.", " Thank you!", " please", " Answer briefly.", " In one sentence.")
STRANGE = (
    "What is the capital of {p}?",
    "Who wrote {p}?",
    "What is a {w}?",
    "What does {x} mean?",
    "How do I cook {w}?",
    "Who is {p} {p}?",
    "How far is {p}?",
    "Why is the {w} so old?",
    "What is {n} plus {n}?",
    "What is {n} times {n}?",
    "Translate {w} into French.",
    "Who won the {w} game?",
    "When was the {w} invented?",
    "How much is a {w}?",
    "What is {x}?",
    "Is a {w} bigger than a {w}?",
    "Where can I buy a {w}?",
    "Tell me a joke about a {w}.",
    "What is the weather in {p}?",
    "How old is {p}?",
    "Write a {w} for me.",
    "Do you like {w}?",
    "What colour is a {w}?",
    "Which {w} is the best?",
    "Can you fix my {w}?",
    "Define {x}.",
    "Explain {x}.",
    "What is the meaning of {w}?",
    "What happened in {n}?",
    "{x} {x} {x}",
    "{w} {w}",
    "How do I get to {p}?",
    "Where is {p}?",
    "Who invented the {w}?",
    "What time is it in {p}?",
    "Show me {x}.",
    "Please describe {p}.",
    "What is the {w} of {p}?",
    "Why?",
    "{x}",
    "Who is {p}?",
    "Where is the {w}?",
    "Why does a {w} need a {w}?",
    "What are {w}s?",
    "Explain the {w}.",
)
# With tools on offer, a name in a question is a reason to call one, so these have none.
ELSEWHERE = tuple(text for text in STRANGE if "{p}" not in text and "{x}" not in text)
ECHOES = ("Repeat: ", "Repeat after me: ", "Say: ", "Copy this: ", "Reply with: ", "Write: ", "Echo: ")


def read_answers(path: Path | None = None) -> dict[str, list[dict[str, Any]]]:
    """Read the questions and answers about the product, short and long ones."""
    path = path or Path(__file__).with_name("answers.json")
    answers: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
    return answers


def count(low: int, high: int) -> str:
    """Write the numbers from `low` to `high` as a sentence."""
    return ", ".join(str(n) for n in range(low, high + 1)) + "."


def alphabet(times: int) -> str:
    """Write the alphabet `times` times, each with its ordinal so that the model keeps count."""
    line = ", ".join("abcdefghijklmnopqrstuvwxyz")
    return "\n".join(f"The {ORDINALS[index]} time: {line}." for index in range(times))


class Corpus:
    """An endless supply of dialogues, the same for the same seed."""

    def __init__(self, seed: int, vocabulary: list[str] | None = None) -> None:
        """Start at `seed`; `vocabulary` holds tokens of letters, to make values that use them all."""
        self.rng = random.Random(seed)
        self.vocabulary = vocabulary
        self.answers = read_answers()
        self.calls = Calls(self.rng, self.value)

    def value(self) -> str:
        """Make one value that training may see."""
        return value(self.rng, self.vocabulary)

    def vary(self, question: str) -> str:
        """Change case, punctuation, the start or the end of a question, as people do."""
        rng = self.rng
        draw = rng.random()
        if draw < 0.18:
            question = question.rstrip("?.!")
        elif draw < 0.24:
            question = question.rstrip("?.!") + rng.choice(("!", "?", ".", "??", " ?", "...", "?!"))
        if rng.random() < 0.20:
            opening = rng.choice(OPENINGS)
            question = opening + (question[0].lower() + question[1:] if rng.random() < 0.6 else question)
        if rng.random() < 0.06:
            question += rng.choice(CLOSINGS)
        if rng.random() < 0.05:
            place = rng.randrange(len(question))
            question = question[:place] + question[place + 1 :]
        draw = rng.random()
        if draw < 0.12:
            question = question.lower()
        elif draw < 0.16:
            question = question.upper()
        return question

    def fixed(self, dialogue: Dialogue) -> None:
        """Ask something about the product."""
        entry = self.rng.choice(self.answers["answers"])
        questions = entry["questions"]
        question = questions[0] if self.rng.random() < 0.3 else self.rng.choice(questions)
        dialogue.user(question if self.rng.random() < 0.35 else self.vary(question))
        dialogue.answer(entry["answer"])

    def unknown(self, dialogue: Dialogue) -> None:
        """Ask something the model does not know."""
        rng = self.rng
        text = rng.choice(ELSEWHERE if dialogue.tools else STRANGE)
        while "{" in text:
            start = text.index("{")
            kind = text[start + 1]
            made = {
                "p": lambda: syllables(rng, 2, 3).capitalize(),
                "w": lambda: rng.choice(WORDS),
                "x": lambda: rng.choice((syllables(rng, 2, 4), rng.choice(WORDS), letters(rng))),
                "n": lambda: number(rng),
            }[kind]()
            text = text[:start] + made + text[start + 3 :]
        if any(noun in text for tool in dialogue.tools for noun in tool.nouns):
            text = "Why?"
        dialogue.user(self.vary(text))
        dialogue.answer(UNKNOWN)

    def echo(self, dialogue: Dialogue) -> None:
        """Ask for a repetition of random words and values."""
        rng = self.rng
        words = [
            self.value() if rng.random() < 0.5 else rng.choice(WORDS + NOUNS)
            for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))
        ]
        text = rng.choice((" ", " ", ", ")).join(words) + rng.choice(("", "", ".", "!"))
        dialogue.user(rng.choice(ECHOES) + text)
        dialogue.answer(text)

    def counting_little(self, dialogue: Dialogue) -> None:
        """Ask for a few numbers in order."""
        self.counting(dialogue, 20)

    def counting(self, dialogue: Dialogue, longest: int = 100) -> None:
        """Ask for numbers in order, up to `longest`."""
        rng = self.rng
        high = longest if longest == 100 and rng.random() < 0.4 else rng.randint(3, longest)
        low = 1 if rng.random() < 0.75 else rng.randint(0, high - 1)
        asked = [
            f"Count from {low} to {high}.",
            f"Please count from {low} to {high}.",
            f"List the numbers from {low} to {high}.",
        ]
        if low == 1:
            asked += [f"Count to {high}.", f"Count up to {high}."]
        dialogue.user(self.vary(rng.choice(asked)) if rng.random() < 0.3 else rng.choice(asked))
        dialogue.answer(count(low, high))

    def reciting(self, dialogue: Dialogue) -> None:
        """Ask for the alphabet, up to five times."""
        times = self.rng.choice((1, 2, 3, 3, 4, 5))
        word = self.rng.choice(TIMES[times - 1])
        asked = [f"Recite the alphabet {word}.", f"Say the alphabet {word}.", f"Write the alphabet {word}."]
        if times == 1:
            asked += ["Recite the alphabet.", "Say the alphabet."]
        dialogue.user(self.rng.choice(asked))
        dialogue.answer(alphabet(times))

    def explaining(self, dialogue: Dialogue) -> None:
        """Ask for one of the long answers."""
        entry = self.rng.choice(self.answers["long_answers"])
        question = self.rng.choice(entry["questions"])
        dialogue.user(question if self.rng.random() < 0.5 else self.vary(question))
        dialogue.answer(entry["answer"])

    def turn(self, dialogue: Dialogue, longer: bool) -> None:
        """Add one question with its answer, of a random sort."""
        rng = self.rng
        if longer and rng.random() < (0.1 if dialogue.tools else 0.3):
            sorts = (self.explaining, self.explaining, self.reciting, self.counting, self.counting)
            rng.choice(sorts)(dialogue)
            return
        shares = (75, 12, 6, 6, 1) if dialogue.tools else (0, 76, 12, 10, 2)
        sort = rng.choices(
            (self.calls.request, self.fixed, self.unknown, self.echo, self.counting_little), shares
        )[0]
        sort(dialogue)

    def dialogue(self, longer: bool) -> list[Piece]:
        """Make one conversation of one or more turns; `longer` ones may have a long answer."""
        rng = self.rng
        dialogue = Dialogue()
        if rng.random() < 0.55:
            self.calls.offer(dialogue)
        while rng.random() < 0.3:
            dialogue.system(
                rng.choice(SYSTEMS)
                if rng.random() < 0.7
                else " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 9))) + "."
            )
        while True:
            self.turn(dialogue, longer)
            if rng.random() < 0.45:
                return [*dialogue.pieces, ("<|endoftext|>", 0.0)]
            if rng.random() < 0.04:
                dialogue.system(rng.choice(SYSTEMS))

    def drill(self) -> list[Piece]:
        """Make a list of random values and repeat it: the shortest way to learn to copy."""
        rng = self.rng
        values = [self.value() for _ in range(rng.randint(1, 8))]
        text = rng.choice((" ", ", ", "\n")).join(values)
        again = text if rng.random() < 0.5 else rng.choice((" ", ", ")).join(rng.sample(values, len(values)))
        return [(text + "\n", 0.0), (again, 1.0), ("<|endoftext|>", 0.0)]

    def texts(self, many: int) -> Iterator[str]:
        """Make `many` plain texts, to learn the tokens from."""
        for entry in (*self.answers["answers"], *self.answers["long_answers"]):
            yield from (entry["answer"] + "\n" + question for question in entry["questions"])
        for index in range(many):
            yield "".join(text for text, _ in self.dialogue(index % 8 == 0))
