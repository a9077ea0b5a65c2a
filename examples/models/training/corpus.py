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

from dialogue import Dialogue, Piece, Tool
from values import letters, number, syllables, value

UNKNOWN = "I am a tiny demonstration model and do not know that."

VERBS = "get show describe find read fetch check inspect restart stop start drain load open list query".split()
NOUNS = (
    "weather node status deployment temperature memory model rank log time price forecast user file "
    "page city cluster order disk machine group replica address country distance population"
).split()
PARAMETERS = "name city node id query target location model deployment path host key place value text".split()
INTEGERS = "replicas count days limit seconds port lines".split()
ORDINALS = "first second third fourth fifth".split()
TIMES = (("once", "1 time"), ("twice", "two times", "2 times"), ("three times", "3 times"),
         ("four times", "4 times"), ("five times", "5 times"))
SYSTEMS = (
    "You are a helpful assistant.", "You are a helpful assistant", "Answer briefly.", "Be concise.",
    "You are an assistant for a cluster of Macs.", "Answer in English.", "You are a coding agent.",
    "Use the tools when they help.", "Be polite.", "You answer questions about reconciler.",
    "Never lie.", "You are a bot.", "Today is Monday.", "Think before you answer.",
)
OPENINGS = ("Hi, ", "Hello, ", "Hey, ", "Please tell me: ", "Question: ", "So, ", "OK, ", "Tell me, ",
            "Good morning, ", "Hello! ", "Hi! ", "One question: ", "Now: ", "Quick question: ", "And ")
CLOSINGS = (" Thanks.", " Please.", " Thank you!", " please", " Answer briefly.", " In one sentence.")
WORDS = (
    "apple river tiger guitar moon ocean bread cheese planet engine window garden music doctor train "
    "history queen winter coffee castle forest diamond teacher kitchen football island bridge camera "
    "pencil mountain shoe poem recipe novel movie song painter galaxy atom enzyme dragon violin tax "
    "visa hotel flight ticket banana horse whale car bicycle church lawyer market dollar king"
).split()
STRANGE = (
    "What is the capital of {p}?", "Who wrote {p}?", "What is a {w}?", "What does {x} mean?",
    "How do I cook {w}?", "Who is {p} {p}?", "How far is {p}?", "Why is the {w} so old?",
    "What is {n} plus {n}?", "What is {n} times {n}?", "Translate {w} into French.",
    "Who won the {w} game?", "When was the {w} invented?", "How much is a {w}?", "What is {x}?",
    "Is a {w} bigger than a {w}?", "Where can I buy a {w}?", "Tell me a joke about a {w}.",
    "What is the weather in {p}?", "How old is {p}?", "Write a {w} for me.", "Do you like {w}?",
    "What colour is a {w}?", "Which {w} is the best?", "Can you fix my {w}?", "Define {x}.",
    "Explain {x}.", "What is the meaning of {w}?", "What happened in {n}?", "{x} {x} {x}", "{w} {w}",
    "How do I get to {p}?", "Where is {p}?", "Who invented the {w}?", "What time is it in {p}?",
    "Show me {x}.", "Please describe {p}.", "What is the {w} of {p}?", "Why?", "{x}", "Who is {p}?",
    "Where is the {w}?", "Why does a {w} need a {w}?", "What are {w}s?", "Explain the {w}.",
)
ECHOES = ("Repeat: ", "Repeat after me: ", "Say: ", "Copy this: ", "Reply with: ", "Write: ", "Echo: ")
ONE = (
    "{verb} the {noun} {v}.", "{verb} {noun} {v}", "{verb} the {noun} of {v}.", "{verb} {v}.",
    "{verb} the {noun} for {v}, please.", "What is the {noun} of {v}?", "What is the {noun} in {v}?",
    "Please {verb} the {noun} {v}.", "Can you {verb} the {noun} of {v}?", "I need the {noun} of {v}.",
    "How is the {noun} of {v}?", "Is the {noun} {v} all right?", "Use {tool} for {v}.", "Call {tool} with {v}.",
    "Use {tool} on {v}.", "Use the tool {tool} with {param} {v}.", "Call {tool} with {param} {v}.",
    "For {v}, {verb} the {noun}.", "{v}: what is the {noun}?", "Take {v} and {verb} its {noun}.",
    "What about the {noun} in {v}?", "Tell me the {noun} for {v}.", "Could you please {verb} {noun} {v}?",
    "What is the {noun} like in {v}?", "Use the {tool} tool with \"{v}\".", "{verb} the {noun} \"{v}\".",
    "How is the {noun} in {v} today?", "What is the {noun} of the node {v}?", "{verb} the {noun} called {v}.",
)
VAGUE = ("What about {v}?", "Look at {v}.", "{v}", "Do it for {v}.", "And {v}?", "Now {v}.", "How is {v}?",
         "Please look up {v}.", "Tell me about {v} with the tool.", "Which one is {v}?", "Try {v}, please.")
TWO = ("{verb} the {noun} {v} with {integer} {n}.", "{verb} {noun} {v} to {n} {integer}.",
       "Set {v} to {n} {integer}.", "Use {tool} for {v} with {integer} {n}.", "{verb} {v}, {integer} {n}.",
       "Give {v} {n} {integer}.", "{verb} the {noun} of {v} for {n} {integer}.")
NONE = ("Use {tool}.", "Call {tool}.", "{verb} the {noun}.", "Please {verb} every {noun}.")
DISTRACTIONS = ("I have heard of {o}. ", "Forget {o}. ", "Before, I asked about {o}. ", "My name is {o}. ",
                "I am in {o}. ", "Not {o}. ", "We have {o} and {p}. ")


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
        text = rng.choice(STRANGE)
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
        dialogue.user(self.vary(text) if text else "Why?")
        dialogue.answer(UNKNOWN)

    def echo(self, dialogue: Dialogue) -> None:
        """Ask for a repetition of random words and values."""
        rng = self.rng
        words = [self.value() if rng.random() < 0.5 else rng.choice(WORDS + NOUNS)
                 for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))]
        text = rng.choice((" ", " ", ", ")).join(words) + rng.choice(("", "", ".", "!"))
        dialogue.user(rng.choice(ECHOES) + text)
        dialogue.answer(text)

    def counting(self, dialogue: Dialogue, longest: int) -> None:
        """Ask for numbers in order, up to `longest`."""
        rng = self.rng
        high = longest if longest == 100 and rng.random() < 0.4 else rng.randint(3, longest)
        low = 1 if rng.random() < 0.75 else rng.randint(0, high - 1)
        asked = [f"Count from {low} to {high}.", f"Please count from {low} to {high}.",
                 f"List the numbers from {low} to {high}."]
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

    def tool(self, verb: str, noun: str) -> Tool:
        """Make a tool that does `verb` to `noun`."""
        rng = self.rng
        style = rng.random()
        if style < 0.62:
            name = f"{verb}_{noun}"
        elif style < 0.74:
            name = verb + noun.capitalize()
        elif style < 0.84:
            name = noun if rng.random() < 0.5 else f"{noun}_{verb}"
        else:
            name = "_".join(syllables(rng, 1, 3) for _ in range(rng.randint(1, 2)))
        parameter = rng.choice((*PARAMETERS, noun, noun)) if rng.random() < 0.85 else syllables(rng, 1, 3)
        parameters = [parameter]
        if rng.random() < 0.15:
            parameters.append(rng.choice([p for p in PARAMETERS if p != parameter]))
        description = rng.choice((
            f"{verb.capitalize()} the {noun}.", f"{verb.capitalize()} a {noun} by its {parameter}.",
            f"Return the {noun} of a {rng.choice(NOUNS)}.", f"{verb.capitalize()} the {noun} for a {parameter}",
            f"Use this to {verb} the {noun} of one {parameter}.", f"The {noun}.",
        ))
        # A name of random syllables can only be chosen by what the description says.
        if style < 0.84 and rng.random() < 0.2:
            description = ""
        integer = rng.choice(INTEGERS) if rng.random() < 0.15 else None
        return Tool(name, parameters, description, verb, noun, integer)

    def offer(self, dialogue: Dialogue) -> None:
        """Offer one to four tools whose verbs and nouns all differ."""
        rng = self.rng
        many = rng.choice((1, 1, 1, 2, 2, 3, 4))
        verbs = rng.sample(VERBS, many)
        nouns = rng.sample(NOUNS, many)
        dialogue.tools = [self.tool(verb, noun) for verb, noun in zip(verbs, nouns, strict=True)]
        if rng.random() < 0.05:
            dialogue.tools[0].parameters, dialogue.tools[0].integer = [], None
        dialogue.offer()

    def request(self, dialogue: Dialogue) -> None:
        """Ask for something an offered tool does, and call it."""
        rng = self.rng
        tool = rng.choice(dialogue.tools)
        made, integer = self.value(), None
        if not tool.parameters:
            form = rng.choice(NONE)
        elif tool.integer and rng.random() < 0.6:
            form, integer = rng.choice(TWO), rng.randrange(rng.choice((10, 100, 10000)))
        elif len(dialogue.tools) == 1 and rng.random() < 0.15:
            form = rng.choice(VAGUE)
        else:
            form = rng.choice(ONE)
        parameter = tool.parameters[0] if tool.parameters else ""
        text = form.format(verb=tool.verb, noun=tool.noun, tool=tool.name, v=made, param=parameter,
                           n=integer, integer=tool.integer)
        if not form.startswith(("{v}", "{tool}")):
            text = text[0].upper() + text[1:]
        if rng.random() < 0.12:
            text = rng.choice(DISTRACTIONS).format(o=self.value(), p=self.value()) + text
        elif rng.random() < 0.12:
            text = rng.choice(OPENINGS) + text
        if rng.random() < 0.15 and not text.endswith(made):
            text = text.rstrip(".?")
        dialogue.user(text)
        dialogue.call(tool, made if tool.parameters else None, integer)
        if rng.random() < 0.25:
            self.result(dialogue)

    def result(self, dialogue: Dialogue) -> None:
        """Return something from the tool just called, and say it in a sentence."""
        rng = self.rng
        if rng.random() < 0.5:
            fields = {rng.choice(NOUNS + PARAMETERS): rng.choice((self.value(), rng.randrange(500), True))
                      for _ in range(rng.randint(1, 3))}
            text = json.dumps(fields)
        else:
            text = " ".join(self.value() if rng.random() < 0.4 else rng.choice(WORDS + NOUNS)
                            for _ in range(rng.randint(1, 6)))
            text += rng.choice(("", "", "."))
        dialogue.tool_result(text)
        dialogue.answer(f"The tool says: {text}" + ("" if text.endswith(".") else "."))

    def dialogue(self, longer: bool) -> list[Piece]:
        """Make one conversation of one or more turns; `longer` ones may have a long answer."""
        rng = self.rng
        dialogue = Dialogue()
        with_tools = rng.random() < 0.5
        if with_tools:
            self.offer(dialogue)
        while rng.random() < 0.3:
            dialogue.system(rng.choice(SYSTEMS) if rng.random() < 0.7 else
                            " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 9))) + ".")
        while True:
            draw = rng.random()
            if longer and draw < 0.30 and not (with_tools and draw < 0.22):
                rng.choice((self.explaining, self.explaining, self.reciting,
                            lambda d: self.counting(d, 100), lambda d: self.counting(d, 100)))(dialogue)
            elif with_tools and draw < 0.8:
                self.request(dialogue)
            elif draw < 0.84 or (with_tools and draw < 0.93):
                self.fixed(dialogue)
            elif draw < 0.92:
                self.unknown(dialogue)
            elif draw < 0.985:
                self.echo(dialogue)
            else:
                self.counting(dialogue, 20)
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
        return [(text + "\n", 0.02), (again, 1.0), ("<|endoftext|>", 0.0)]

    def texts(self, many: int) -> Iterator[str]:
        """Make `many` plain texts, to learn the tokens from."""
        for entry in (*self.answers["answers"], *self.answers["long_answers"]):
            yield from (entry["answer"] + "\n" + question for question in entry["questions"])
        for index in range(many):
            yield "".join(text for text, _ in self.dialogue(index % 8 == 0))
