"""One question to the endpoint, as any client would ask it."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from reconciler.errors import Invalid

QUESTION = "What is reconciler?"
ANSWER_SECONDS_MAX = 90.0
TOKENS_MAX = 256


def request_body(model: str, question: str) -> dict[str, Any]:
    """The body of a chat completion. Temperature 0: the same question gets the same answer."""
    return {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0}


def ask_endpoint(endpoint: str, model: str, question: str) -> str:
    """The text that ``endpoint`` (such as ``http://127.0.0.1:8400/v1``) answers with.

    Straight to the address, whatever proxies the environment names. Raises ``Invalid`` when there is no
    answer.
    """
    target = urlsplit(endpoint)
    connection = http.client.HTTPConnection(target.netloc, timeout=ANSWER_SECONDS_MAX)
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
        raise Invalid(f"{endpoint} gave no usable answer: {error!r}") from error
    finally:
        connection.close()
    return text
