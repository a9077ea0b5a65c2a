"""Runs a client's features one after the other, and prints what each saw, a JSON object a line.

The feature ``retry`` says first that it is ready, and waits for a line.
"""

import asyncio
import inspect
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

CITY = {
    "name": "get_weather",
    "description": "The weather of a city, in degrees.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "celsius": {"type": "integer"}},
    "required": ["city", "celsius"],
    "additionalProperties": False,
}


def follow(script: str) -> str:
    """A message that chooses a script."""
    return f"Follow the script {script}."


def get_weather(city: str) -> str:
    """The weather of a city, in degrees."""
    assert city == "Paris", city
    return "21"


def refusal(status: int, text: str, parameter: str = "temperature") -> list[object]:
    """The status of an error, and whether it names the parameter."""
    return [status, parameter in text]


def run(text: str, **features: Callable[[], object]) -> None:
    """Run features in the order given. ``text`` is what the block of the document printed or said."""
    _tell("text", lambda: text)
    for name, feature in features.items():
        if name == "retry":
            print(json.dumps({"ready": name}), flush=True)
            sys.stdin.readline()
        _tell(name, feature)


def unknown(*parameters: type) -> list[str]:
    """Parameters of a library, as its types name them, that the endpoint's table does not have."""
    known = json.loads(Path("parameters.json").read_text())
    return sorted({name for each in parameters for name in each.__annotations__}.difference(known))


def each(helpers: dict[str, Callable[[], object]]) -> dict[str, object]:
    """Run helpers of a library one after the other. Return what each saw, or how it failed."""
    return {name: _tried(helper) for name, helper in helpers.items()}


def _tried(helper: Callable[[], object]) -> object:
    try:
        return _seen(helper)
    except Exception as error:  # noqa: BLE001  a client may raise whatever it likes, and the next helper is tried
        return f"{type(error).__name__}: {error}"[:500]


def _seen(feature: Callable[[], object]) -> object:
    seen = feature()
    return _loop().run_until_complete(seen) if inspect.iscoroutine(seen) else seen


def _tell(name: str, feature: Callable[[], object]) -> None:
    began = time.monotonic()
    try:
        told = {"seen": _seen(feature)}
    except Exception as error:  # noqa: BLE001  a client may raise whatever it likes, and the next feature is tried
        told = {"error": f"{type(error).__name__}: {error}"[:2000], "trace": traceback.format_exc()[-3000:]}
    seconds = round(time.monotonic() - began, 2)
    print(json.dumps({"feature": name, "seconds": seconds, **told}, default=str), flush=True)


def _loop() -> asyncio.AbstractEventLoop:
    """The loop that the lines of the document have used, to which a client's connections belong."""
    try:
        return asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop
