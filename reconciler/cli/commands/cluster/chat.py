"""`chat`: ask a model that is served, once or in a conversation."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from reconciler.bootstrap import Home
from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings
from reconciler.cli.core.client import ask
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.parsed import PATH
from reconciler.cli.output.streams import shown
from reconciler.errors import Invalid, Refused
from reconciler.secret_files import one_line, read_secret
from reconciler.wire.admin import Get

from .question import posted

KEY_VARIABLE = "RECONCILER_API_KEY"
PROMPT = "> "


@click.command()
@click.argument("model", shell_complete=complete.models)
@click.argument("words", nargs=-1, metavar="[QUESTION]")
@click.option("--system", metavar="TEXT", help="Instructions for the model, before everything else.")
@click.option("--gateway", metavar="NAME", help="The Gateway to ask, if there are several.")
@click.option(
    "--key-file", type=PATH, help=f"File with the API key, if the gateway asks for one; else {KEY_VARIABLE}."
)
@output_option()
@click.pass_obj
def chat(
    settings: Settings,
    /,
    model: str,
    words: tuple[str, ...],
    system: str | None,
    gateway: str | None,
    key_file: Path | None,
    output: str | None,
) -> None:
    """Ask a model that is served, once or in a conversation.

    With a QUESTION, or one on standard input, prints the answer and ends. Without one, asks for questions until Ctrl-D;
    Ctrl-C ends an answer. Text on standard input is added after the question.

    \b
    Examples:
      reconciler chat tiny "What is an epoch?"
      git diff | reconciler chat tiny "Review this change:"
      reconciler chat tiny "What is an epoch?" -o json   the answer as the endpoint gives it
    """
    question = "\n\n".join(
        part for part in (" ".join(words), "" if sys.stdin.isatty() else sys.stdin.read()) if part.strip()
    )
    if not question and (output or not sys.stdin.isatty()):
        raise click.UsageError("there is no question")
    talk = Talk(_endpoint(settings, gateway), model, _key(key_file), trusting=settings.away is None)
    if system:
        talk.messages.append({"role": "system", "content": system})
    if output:
        print_body(talk.whole(question), output)
    elif question:
        talk.say(question)
    else:
        _converse(talk)


def _key(file: Path | None) -> str:
    if file is not None:
        return read_secret(file)
    written = os.environ.get(KEY_VARIABLE, "")
    return one_line(written, KEY_VARIABLE) if written else ""


def _endpoint(settings: Settings, gateway: str | None) -> str:
    """Return the URL of the gateway; on its own machine, by its address there, because its name may lead elsewhere."""
    items = ask(settings.socket, Get("Gateway"))["items"]
    found = [item for item in items if gateway in (None, item["metadata"]["name"])]
    ready = [endpoint for item in found if (endpoint := item["status"].get("endpoint"))]
    if not ready:
        names = ", ".join(item["metadata"]["name"] for item in items) or "none"
        raise Refused("NoEndpoint", f"no gateway answers; there is {names}; see: reconciler get gateways")
    if settings.away is None:
        try:
            state = json.loads(Home(settings.home).gateway.read_bytes())
            if state["endpoint"] == ready[0]:
                scheme, _, rest = ready[0].partition("://")
                return f"{scheme}://{state['local']}/{rest.partition('/')[2]}"
        except (OSError, ValueError, KeyError, TypeError):
            pass
    return ready[0]


class Talk:
    """A conversation with a model. The endpoint does not remember it between two questions."""

    def __init__(self, endpoint: str, model: str, key: str, *, trusting: bool) -> None:
        self.messages: list[dict[str, str]] = []
        self._endpoint, self._model, self._key, self._trusting = endpoint, model, key, trusting

    def whole(self, question: str) -> Any:
        with self._posted(question, stream=False) as response:
            return json.loads(response.read())

    def say(self, question: str) -> None:
        """Print the answer to a question as it comes, and keep both. Ctrl-C ends it; its beginning is kept."""
        parts: list[str] = []
        try:
            with self._posted(question, stream=True) as response:
                for part in _contents(response):
                    parts.append(part)
                    click.echo(shown(part), nl=False)
        except KeyboardInterrupt:
            click.echo(" (ended)", nl=False)
        click.echo()
        self.messages += [
            {"role": "user", "content": question},
            {"role": "assistant", "content": "".join(parts)},
        ]

    def _posted(self, question: str, *, stream: bool) -> Any:
        messages = [*self.messages, {"role": "user", "content": question}]
        body = {"model": self._model, "messages": messages, "stream": stream}
        return posted(self._endpoint, body, self._key, trusting=self._trusting)


def _contents(lines: Any) -> Iterator[str]:
    """Yield the text of a streamed answer. Raises ``Invalid`` with the endpoint's words if it ends with an error."""
    for line in lines:
        name, _, value = line.decode().partition(":")
        if name != "data" or value.strip() == "[DONE]":
            continue
        event = json.loads(value)
        if "error" in event:
            raise Invalid(event["error"]["message"])
        yield from (choice["delta"].get("content") or "" for choice in event["choices"])


def _converse(talk: Talk) -> None:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, which edits lines and remembers them
    while True:
        try:
            question = input(PROMPT).strip()
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if question:
            talk.say(question)
