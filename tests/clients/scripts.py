"""What the scripted model says, by the name of a script, and what clients of every kind are to see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Script = Sequence[Mapping[str, Any]]

STORY = "Once there were two ranks that told one story, a word at a time, and nobody could tell them apart."
WEATHER = {"city": "Paris", "celsius": 21}
TYPED = '{"city": "Paris", "celsius": 21}'


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool, as models of the family write it."""
    return {"name": name, "arguments": arguments}


SDK_SCRIPTS: Mapping[str, Script] = {
    "story": [{"say": STORY}],
    "weather": [
        {"calls": [call("get_weather", city="Paris")]},
        {"say": "It is {seen:[0-9]+} degrees in Paris."},
    ],
    "typed": [{"say": TYPED}],
    "name-a-city": [{"calls": [call("City", city="Paris")]}],
    "typed-by-call": [{"calls": [call("Weather", **WEATHER)]}],
    "typed-by-result": [{"calls": [call("final_result", **WEATHER)]}],
    "typed-by-part": [{"calls": [call("PartialWeather", **WEATHER)]}],
    "typed-for-litellm": [{"calls": [call("json_tool_call", **WEATHER)]}],
    "typed-for-ai-sdk": [{"calls": [call("json", **WEATHER)]}],
}

SEEN: Mapping[str, Any] = {
    "text": "Hello from the script.",
    "stream": STORY,
    "tools": "It is 21 degrees in Paris.",
    "typed": WEATHER,
    "refused": [400, True],
    "retry": "Hello from the script.",
}
"""What each feature of a client gives; for ``stream`` the pieces joined, of which there must be several; for ``refused`` the
status, and whether the error names the parameter."""

FEATURES = tuple(SEEN)
PIECES_MIN = 3


def right(feature: str, seen: Any) -> bool:
    """Whether a client saw what it is to see."""
    if feature == "stream":
        return isinstance(seen, list) and len(seen) >= PIECES_MIN and "".join(seen) == STORY
    return bool(seen == SEEN[feature])
