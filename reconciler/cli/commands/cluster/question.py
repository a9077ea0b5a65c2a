"""Asks the endpoint one question, as any client would."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reconciler.errors import Invalid

if TYPE_CHECKING:
    from http.client import HTTPConnection

QUESTION = "What is reconciler?"
ANSWER_SECONDS_MAX = 90.0
TOKENS_MAX = 256


def request_body(model: str, question: str) -> dict[str, Any]:
    """Return the body of a chat completion, with temperature 0 for repeatable answers."""
    return {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0}


def ask_endpoint(endpoint: str, model: str, question: str) -> str:
    """Return the text with which ``endpoint`` (such as ``http://127.0.0.1:8400/v1``) answers.

    Connects directly, without the environment's proxies, and takes any certificate: the endpoint is asked by its address
    on this machine, for which none is made. Raises ``Invalid`` if there is no usable answer.
    """
    import http.client

    target = urlsplit(endpoint)
    connection = _connection(target.scheme, target.netloc)
    body = json.dumps({**request_body(model, question), "max_tokens": TOKENS_MAX})
    try:
        connection.request(
            "POST", f"{target.path}/chat/completions", body, {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != http.client.OK:
            raise Invalid(f"{endpoint} answered {response.status}: {answer['error']['message']}")
        text: str = answer["choices"][0]["message"]["content"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError) as error:
        raise Invalid(f"no usable answer from {endpoint}: {error!r}") from error
    finally:
        connection.close()
    return text


def _connection(scheme: str, address: str) -> HTTPConnection:
    import http.client  # takes a while, and few ask
    import ssl

    if scheme != "https":
        return http.client.HTTPConnection(address, timeout=ANSWER_SECONDS_MAX)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(address, timeout=ANSWER_SECONDS_MAX, context=context)
