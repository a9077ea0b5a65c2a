"""Requests that an offered tool answers, and the calls that are right: all names are random.

What a model of this size learns here is to find the tool that shares a word with the request, and to
copy three names: the tool's and the parameter's from the offer, and the value from the request. So
nothing may repeat often enough to be remembered: verbs and nouns are mixed, many are made up, and
the request often uses another verb than the tool.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from dialogue import Dialogue, Tool
from values import syllables
from words import NOUNS, OPENINGS, PARAMETERS, WORDS, words

VERBS = words(
    "get show describe find read fetch check inspect restart stop start drain load open list query delete "
    "update send scale create move copy watch print run pause resume set return measure compute report"
)
INTEGERS = words("replicas count days limit seconds port lines amount size")
GENERAL = (
    ("look up", ("lookup", "look_up", "lookup_entry"), "Look something up."),
    ("search for", ("search", "web_search", "search_docs"), "Search for something."),
    ("find", ("find", "finder", "find_item"), "Find anything by its name."),
    ("open", ("open", "open_page", "open_item"), "Open one thing."),
    ("restart", ("restart", "reboot", "restart_item"), "Restart one thing."),
    ("describe", ("describe", "info", "details"), "Describe one thing."),
)
GENERAL_FORMS = (
    "{verb} {v}.",
    "{verb} {v}",
    "Please {verb} {v}.",
    "Can you {verb} {v}?",
    "Could you {verb} {v}, please?",
    "Use {tool} for {v}.",
    "Call {tool} with {v}.",
    "I want you to {verb} {v}.",
    '{verb} "{v}".',
)
FORMS = (
    "{verb} the {noun} {v}.",
    "{verb} {noun} {v}",
    "{verb} the {noun} of {v}.",
    "{verb} {noun} {v}.",
    "{verb} the {noun} for {v}, please.",
    "What is the {noun} of {v}?",
    "What is the {noun} in {v}?",
    "What is the {noun} of {v}?",
    "What is the {noun} in {v}?",
    "How is the {noun} in {v}?",
    "Please {verb} the {noun} {v}.",
    "Can you {verb} the {noun} of {v}?",
    "I need the {noun} of {v}.",
    "How is the {noun} of {v}?",
    "Is the {noun} {v} all right?",
    "Use {tool} for {v}.",
    "Call {tool} with {v}.",
    "Use {tool} on {v}.",
    "Use the tool {tool} with {param} {v}.",
    "Call {tool} with {param} {v}.",
    "Call {tool} with {param} set to {v}.",
    "For {v}, {verb} the {noun}.",
    "{v}: what is the {noun}?",
    "Take {v} and {verb} its {noun}.",
    "What about the {noun} in {v}?",
    "Tell me the {noun} for {v}.",
    "Could you please {verb} {noun} {v}?",
    "What is the {noun} like in {v}?",
    'Use the {tool} tool with "{v}".',
    '{verb} the {noun} "{v}".',
    "How is the {noun} in {v} today?",
    "What is the {noun} of the {word} {v}?",
    "{verb} the {noun} called {v}.",
    "What {noun} does {v} have?",
    "Give me the {noun} of {v}.",
    "What is the {noun} of {v} right now?",
    "Which {noun} is {v}?",
    "I want to know the {noun} of {v}.",
)
VERB_FORMS = ("{verb} {v}.", "{verb} {v}", "Please {verb} {v}.", "{verb} {v} now.", "{verb} {v}, please.")
VAGUE = (
    "What about {v}?",
    "Look at {v}.",
    "{v}",
    "Do it for {v}.",
    "And {v}?",
    "Now {v}.",
    "How is {v}?",
    "Please look up {v}.",
    "Tell me about {v} with the tool.",
    "Which one is {v}?",
    "Try {v}, please.",
    "Look up {v}.",
    "Show {v}.",
    "Check {v}.",
    "Describe {v}.",
    "I mean {v}.",
)
TWO = (
    "{verb} the {noun} {v} with {integer} {n}.",
    "{verb} {noun} {v} to {n} {integer}.",
    "{verb} the {noun} of {v} to {n} {integer}.",
    "Use {tool} for {v} with {integer} {n}.",
    "{verb} {noun} {v}, {integer} {n}.",
    "{verb} the {noun} of {v} for {n} {integer}.",
)
NONE = ("Use {tool}.", "Call {tool}.", "{verb} the {noun}.", "Please {verb} every {noun}.")
DISTRACTIONS = (
    "I have heard of {o}. ",
    "Forget {o}. ",
    "Before, I asked about {o}. ",
    "My name is {o}. ",
    "I am in {o}. ",
    "Not {o}. ",
    "We have {o} and {p}. ",
)


class Calls:
    """Makes offers of tools, requests, calls and results from one generator of random numbers."""

    def __init__(self, rng: random.Random, value: Callable[[], str]) -> None:
        """Use `rng` for choices and `value` for new values."""
        self.rng = rng
        self.value = value

    def noun(self) -> str:
        """Make a noun: a usual one, an unusual one or one that does not exist."""
        draw = self.rng.random()
        if draw < 0.55:
            return self.rng.choice(NOUNS)
        return self.rng.choice(WORDS) if draw < 0.8 else syllables(self.rng, 1, 3)

    def name(self, verb: str, noun: str) -> tuple[str, bool]:
        """Name a tool, and say whether the name tells what it does."""
        rng = self.rng
        style = rng.random()
        if style < 0.50:
            return f"{verb}_{noun}", True
        if style < 0.60:
            return verb + noun.capitalize(), True
        if style < 0.67:
            return noun, True
        if style < 0.73:
            return f"{noun}_{verb}", True
        if style < 0.85:
            return f"{verb}_{rng.choice(WORDS + NOUNS + ['current', 'all', 'my'])}_{noun}", True
        return "_".join(syllables(rng, 1, 3) for _ in range(rng.randint(1, 2))), False

    def tool(self, verb: str, noun: str) -> Tool:
        """Make a tool that does `verb` to `noun`."""
        rng = self.rng
        name, telling = self.name(verb, noun)
        draw = rng.random()
        parameter = rng.choice(PARAMETERS) if draw < 0.65 else noun if draw < 0.8 else syllables(rng, 1, 3)
        parameters = [parameter]
        if rng.random() < 0.15:
            parameters.append(rng.choice([p for p in PARAMETERS if p != parameter]))
        nouns = [noun]
        if rng.random() < 0.2:
            nouns.append(self.noun())
            description = rng.choice(
                (
                    f"{verb.capitalize()} the {nouns[1]} of a {noun}.",
                    f"Get the {nouns[1]} of one {noun}.",
                    f"Return {nouns[1]} and {noun}.",
                )
            )
        else:
            other = rng.choice(VERBS).capitalize()
            description = rng.choice(
                (
                    f"{verb.capitalize()} the {noun}.",
                    f"{verb.capitalize()} a {noun} by its {parameter}.",
                    f"Return the {noun} of a {parameter}.",
                    f"{other} the {noun} for a {parameter}",
                    f"Use this to {verb} the {noun} of one {parameter}.",
                    f"The {noun}.",
                    f"{other} the current {noun} for a given {parameter}.",
                    f"{other} one {noun}.",
                )
            )
        # A name of random syllables can only be chosen by what the description says.
        if telling and len(nouns) == 1 and rng.random() < 0.2:
            description = ""
        elif rng.random() < 0.12:
            filler = " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 8)))
            description = f"{description} {filler.capitalize()}."
        integer = rng.choice(INTEGERS) if rng.random() < 0.12 else None
        return Tool(name, parameters, description, verb, nouns, integer)

    def general(self) -> Tool:
        """Make a tool that is chosen by its verb alone."""
        verb, names, description = self.rng.choice(GENERAL)
        if self.rng.random() < 0.3:
            description = f"{verb.capitalize()} {self.rng.choice(WORDS)}s."
        return Tool(self.rng.choice(names), [self.rng.choice(PARAMETERS)], description, verb, [])

    def offer(self, dialogue: Dialogue) -> None:
        """Offer one to four tools whose verbs and nouns all differ."""
        rng = self.rng
        many = rng.choice((1, 1, 1, 2, 2, 3, 4))
        nouns: dict[str, None] = {}
        while len(nouns) < many:
            nouns[self.noun()] = None
        verbs = rng.sample(VERBS, many) if rng.random() < 0.6 else rng.choices(VERBS[:4], k=many)
        dialogue.tools = [self.tool(verb, noun) for verb, noun in zip(verbs, nouns, strict=True)]
        if rng.random() < 0.12:
            general = self.general()
            if all(tool.verb not in general.verb for tool in dialogue.tools[1:]):
                dialogue.tools[0] = general
                rng.shuffle(dialogue.tools)
        elif rng.random() < 0.04:
            dialogue.tools[0].parameters, dialogue.tools[0].integer = [], None
        dialogue.offer()

    def form(self, tool: Tool, alone: bool) -> tuple[str, str]:
        """Choose how to ask for `tool` and with which verb; `alone`: no other tool is offered."""
        rng = self.rng
        if not tool.parameters:
            return rng.choice(NONE), tool.verb
        if alone and rng.random() < 0.15:
            return rng.choice(VAGUE), tool.verb
        if not tool.nouns:
            return rng.choice(GENERAL_FORMS), tool.verb
        if rng.random() < 0.08 and (alone or not tool.description):
            return rng.choice(VERB_FORMS), tool.verb
        return rng.choice(FORMS), tool.verb if rng.random() < 0.5 else rng.choice(VERBS)

    def request(self, dialogue: Dialogue) -> None:
        """Ask for something an offered tool does, and call it."""
        rng = self.rng
        tool = rng.choice(dialogue.tools)
        made, integer = self.value(), None
        if tool.parameters and tool.integer and rng.random() < 0.6:
            form, verb, integer = rng.choice(TWO), tool.verb, rng.randrange(rng.choice((10, 100, 10000)))
        else:
            form, verb = self.form(tool, len(dialogue.tools) == 1)
        text = form.format(
            verb=verb,
            noun=rng.choice(tool.nouns) if tool.nouns else "",
            tool=tool.name,
            v=made,
            param=tool.parameters[0] if tool.parameters else "",
            n=integer,
            integer=tool.integer,
            word=rng.choice(WORDS + NOUNS),
        )
        if not form.startswith(("{v}", "{tool}")) and rng.random() < 0.9:
            text = text[0].upper() + text[1:]
        draw = rng.random()
        if draw < 0.12:
            text = rng.choice(DISTRACTIONS).format(o=self.value(), p=self.value()) + text
        elif draw < 0.24:
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
            fields = {
                rng.choice(NOUNS + PARAMETERS): rng.choice((self.value(), rng.randrange(500), True))
                for _ in range(rng.randint(1, 3))
            }
            text = json.dumps(fields)
        else:
            text = " ".join(
                self.value() if rng.random() < 0.4 else rng.choice(WORDS + NOUNS)
                for _ in range(rng.randint(1, 6))
            )
            text += rng.choice(("", "", "."))
        dialogue.tool_result(text)
        dialogue.answer(f"The tool says: {text}" + ("" if text.endswith(".") else "."))
