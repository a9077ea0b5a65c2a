"""Clients that ask an endpoint for one stream after the other, and count what has become of each."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

TIMEOUT_SECONDS = 120.0


class Asking:
    """Some clients, each with its own connection: every second one keeps it, the others open one for each request."""

    def __init__(self, endpoint: str, model: str, secret: str, tokens: tuple[int, ...]) -> None:
        """``tokens``: the most tokens of each client's answers, and so how many clients there are."""
        self.seen: Counter[str] = Counter()
        """``whole`` answers, ``refused`` connections, and whatever else has happened."""
        self.used = 0
        """All tokens, as the answers say."""
        self._address = endpoint.removeprefix("http://").partition("/")[0]
        self._model = model
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
        self._tokens = tokens
        self._lock = threading.Lock()
        self._done = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ask meanwhile; every answer that has begun is read to its end."""
        clients = [threading.Thread(target=self._client, args=each) for each in enumerate(self._tokens)]
        for client in clients:
            client.start()
        try:
            yield
        finally:
            self._done.set()
            for client in clients:
                client.join(TIMEOUT_SECONDS)

    def whole(self) -> int:
        """How many answers were whole so far."""
        return self.seen["whole"]

    def _client(self, number: int, tokens: int) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT_SECONDS)
        while not self._done.is_set():
            try:
                outcome, used = self._ask(connection, tokens)
            except ConnectionRefusedError:
                outcome, used = "refused", 0
            except (OSError, http.client.HTTPException) as error:
                outcome, used = f"cut: {error!r}", 0
            with self._lock:
                self.seen[outcome] += 1
                self.used += used
            if number % 2 or outcome != "whole":
                connection.close()
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, tokens: int) -> tuple[str, int]:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": "Tell me."}],
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        connection.request("POST", "/v1/chat/completions", json.dumps(body), self._headers)
        answer = connection.getresponse()
        events = answer.read().split(b"\n\n")
        if answer.status != 200 or events[-2:] != [b"data: [DONE]", b""]:
            return f"not whole: {answer.status} {events[-2:]}", 0
        usage = json.loads(events[-3].removeprefix(b"data: "))["usage"]
        return "whole", int(usage["total_tokens"])
