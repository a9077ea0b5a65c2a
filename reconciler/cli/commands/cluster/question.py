"""Asks the endpoint, as any client would."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.errors import Invalid

if TYPE_CHECKING:
    from http.client import HTTPResponse

QUESTION = "What is reconciler?"
ANSWER_SECONDS_MAX = 600.0
"""Longest silence of an answer: a long prompt is read first."""
TOKENS_MAX = 256


def request_body(model: str, question: str) -> dict[str, Any]:
    """Return the body of a chat completion, with temperature 0 for repeatable answers."""
    return {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0}


@contextmanager
def posted(
    endpoint: str,
    body: dict[str, Any],
    key: str = "",
    *,
    trusting: bool = True,
) -> Iterator[HTTPResponse]:
    """Post a chat completion to ``endpoint`` (such as ``http://127.0.0.1:8400/v1``); yield the response, which is 200.

    Connects directly, without the environment's proxies. ``trusting`` accepts any certificate: this machine's endpoint has
    none for its address. Raises ``Invalid`` if there is no usable answer.
    """
    import http.client  # takes a while, and few ask
    import ssl

    target = urlsplit(endpoint)
    connect: Callable[..., http.client.HTTPConnection] = http.client.HTTPConnection
    if target.scheme == "https":
        context = ssl.create_default_context()
        if trusting:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        connect = functools.partial(http.client.HTTPSConnection, context=context)
    connection = connect(target.netloc, timeout=ANSWER_SECONDS_MAX)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        connection.request("POST", f"{target.path}/chat/completions", json.dumps(body), headers)
        with connection.getresponse() as response:
            if response.status != http.client.OK:
                message = json.loads(response.read())["error"]["message"]
                raise Invalid(f"{endpoint} answered {response.status}: {message}")
            yield response
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError) as error:
        raise Invalid(f"no usable answer from {endpoint}: {error!r}") from error
    finally:
        connection.close()


def ask_endpoint(endpoint: str, model: str, question: str) -> str:
    """Return the text of the endpoint's answer to a question. Raises ``Invalid`` if there is none."""
    with posted(endpoint, {**request_body(model, question), "max_tokens": TOKENS_MAX}) as response:
        text: str = json.loads(response.read())["choices"][0]["message"]["content"]
    return text
