"""Runs Open WebUI without a browser: the server that ``docs/clients.md`` starts, asked by its own API as its pages ask it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster
from tests.ports import free_port

from .documents import blocks
from .installing import installed
from .outcome import Outcome
from .rows import CHAT, PYTHON, Client
from .scripts import SEEN, Script, right
from .sdks import environment
from .world import NAME, base

OPEN_WEBUI = Client("Open WebUI", PYTHON, ["open-webui==0.12.4"], CHAT)
TITLE = "Weather in Paris"
TITLED = "titled"
WEBUI_SCRIPTS: Mapping[str, Script] = {TITLED: [{"say": json.dumps({"title": TITLE})}]}
"""Its question for a title repeats the conversation, and with it the script: answer and title are the same."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OFFLINE_MODE": "true",
    "RAG_EMBEDDING_ENGINE": "openai",
    "WEBUI_SECRET_KEY": "clients",
    "ANONYMIZED_TELEMETRY": "false",
}
"""It makes no vectors, and fetches no weights."""
SLIDERS = {
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 20,
    "min_p": 0.05,
    "max_tokens": 50,
    "seed": 5,
    "stop": ["never"],
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "repeat_penalty": 1.1,
    "reasoning_effort": "low",
    "logit_bias": {"5": -1},
}
"""What it lets people choose for a chat, as far as servers beside Ollama are sent it."""
WEATHER_TOOL = '''"""
title: Weather
"""


class Tools:
    def get_weather(self, city: str) -> str:
        """
        The weather of a city, in degrees.
        :param city: The city.
        """
        return "21"
'''
"""A tool that Open WebUI runs itself."""
STARTS_SECONDS = 240.0
ENDS_SECONDS = 60.0


def run(client: Client, made: Cluster, folder: Path) -> Outcome:
    """Run its features, with an empty home in ``folder``."""
    outcome = Outcome(client)
    began = time.monotonic()
    with _served(client, made, folder) as webui:
        features: Mapping[str, Callable[[], str]] = {
            "text": lambda: _said(webui, "Say hello.", SEEN["text"]),
            "stream": lambda: _streamed(webui),
            "tools": lambda: _chat_with_tool(webui),
            "helpers": lambda: _models(webui) or _title(webui) or _sliders(webui),
        }
        for name, feature in features.items():
            try:
                outcome.features[name] = feature()
            except (OSError, LookupError, ValueError, AssertionError) as error:
                outcome.features[name] = f"{type(error).__name__}: {error}\n{webui.log()}"
    outcome.seconds = time.monotonic() - began
    return outcome


class Webui:
    """A server of Open WebUI, and who has signed up with it first."""

    def __init__(self, address: str, log: Path) -> None:
        self._address = address
        self._log = log
        self._token = ""

    def log(self) -> str:
        """Return the end of what it has printed."""
        return self._log.read_text(errors="replace")[-1500:]

    def sign_up(self) -> None:
        person = {"name": "Ada", "email": "ada@example.com", "password": "A-long-1-word"}
        self._token = self.ask("/api/v1/auths/signup", person)["token"]

    def ask(self, path: str, body: object = None) -> Any:
        """Return its answer. Raises ``OSError`` for any that is none, with what it says."""
        return json.loads(self.read(path, body))

    def read(self, path: str, body: object = None) -> str:
        """Return its answer as it came."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._token}"}
        asked = urllib.request.Request(self._address + path, data, headers)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise OSError(f"{path} answered {error.code}: {error.read().decode()[:500]}") from error


@contextmanager
def _served(client: Client, made: Cluster, folder: Path) -> Iterator[Webui]:
    where = installed(client.kind, client.packages)
    variables = {**environment(folder), **OFFLINE, "DATA_DIR": str(folder / "data")}
    for block in blocks(client.name):
        variables |= block.exports(base(made))
    (folder / "data").mkdir()
    program = shutil.which("open-webui", path=str(where / "bin"))
    assert program is not None, f"{where} has no open-webui"
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve", "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=variables,
        )
    webui = Webui(f"http://127.0.0.1:{port}", folder / "log")
    try:
        _wait(STARTS_SECONDS, lambda: process.poll() is not None or _healthy(webui))
        if process.poll() is not None:
            raise OSError(f"open-webui ended with {process.returncode}: {webui.log()}")
        webui.sign_up()
        yield webui
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _healthy(webui: Webui) -> bool:
    try:
        return bool(webui.ask("/health")["status"])
    except OSError:
        return False


def _wait(seconds: float, true: Callable[[], object]) -> None:
    """Wait until something holds. Raises ``AssertionError`` where it does not in time."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, f"waited {seconds:.0f} s in vain"
        time.sleep(0.5)


def _asked(text: str, **more: object) -> dict[str, object]:
    return {"model": NAME, "messages": [{"role": "user", "content": text}], "stream": False, **more}


def _wrong(seen: object, wanted: object) -> str:
    return "" if seen == wanted else f"saw {seen!r} rather than {wanted!r}"


def _said(webui: Webui, text: str, wanted: object, **more: object) -> str:
    done = webui.ask("/api/chat/completions", _asked(text, **more))
    return _wrong(done["choices"][0]["message"]["content"], wanted)


def _streamed(webui: Webui) -> str:
    events = webui.read("/api/chat/completions", _asked("Follow the script story.", stream=True))
    chunks = [json.loads(data) for data in re.findall(r"^data: (\{.*\})$", events, re.M)]
    pieces = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    said = [piece for piece in pieces if piece]
    return "" if right("stream", said) else f"saw {said!r}"


def _models(webui: Webui) -> str:
    return _wrong([model["id"] for model in webui.ask("/api/models")["data"]], [NAME])


def _chat_with_tool(webui: Webui) -> str:
    tool = {"id": "weather", "name": "Weather", "content": WEATHER_TOOL, "meta": {"description": "Weather"}}
    webui.ask("/api/v1/tools/create", tool)
    native = {"params": {"function_calling": "native"}}
    chat = _chat(webui, "weather", tool_ids=["weather"], **native)
    answer = chat["history"]["messages"]["answer"]
    calls = [item["name"] for item in answer["output"] if item["type"] == "function_call"]
    return _wrong((calls, answer["content"]), (["get_weather"], SEEN["tools"]))


def _title(webui: Webui) -> str:
    chat = _chat(webui, TITLED, background_tasks={"title_generation": True})
    return _wrong(chat["title"], TITLE)


def _sliders(webui: Webui) -> str:
    return _said(webui, "Say hello.", SEEN["text"], params=SLIDERS)


def _chat(webui: Webui, script: str, **more: object) -> dict[str, Any]:
    """Return a chat that is kept, once it is answered and its tasks are done."""
    text = f"Follow the script {script}."
    question = {
        "id": "question",
        "role": "user",
        "content": text,
        "parentId": None,
        "childrenIds": ["answer"],
    }
    asked = _asked(text, stream=True, parent_id=None, id="answer", session_id="clients", **more)
    place = (
        f"/api/v1/chats/{webui.ask('/api/chat/completions', {**asked, 'user_message': question})['chat_id']}"
    )
    tasks = place.replace("/v1/chats/", "/tasks/chat/")
    _wait(ENDS_SECONDS, lambda: webui.ask(place)["chat"]["history"]["messages"]["answer"].get("done"))
    _wait(ENDS_SECONDS, lambda: not webui.ask(tasks)["task_ids"])
    found: dict[str, Any] = webui.ask(place)["chat"]
    return found
