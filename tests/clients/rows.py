"""The clients: how each is installed, what runs, and what it is to show. What a person types stands in ``docs/clients.md``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .scripts import FEATURES, SEEN, STORY, WEATHER

PYTHON, NODE, JAVA = "python", "node", "java"


@dataclass(frozen=True)
class Client:
    """A client, named as its heading in the document."""

    name: str
    kind: str
    """``PYTHON``, with an environment of its own; ``NODE``, with a prefix of its own; ``JAVA``, with the JDK of the machine."""
    packages: Sequence[str]
    """What is installed, with exact versions; the first one is the client's own. Of a JDK, the oldest that is good."""
    surface: str
    """The part of the endpoint that it uses."""
    program: str = ""
    """The file in ``programs/`` that runs its features; empty for an agent."""
    without: Sequence[str] = ()
    """Features that it does not have."""
    own: dict[str, object] = field(default_factory=dict)
    """What a feature gives that is not in ``SEEN``, or something else there."""

    @property
    def version(self) -> str:
        """Return the version of the client's own package."""
        first = self.packages[0]
        return first.rpartition("==" if self.kind == PYTHON else "@")[2]

    @property
    def features(self) -> Sequence[str]:
        """Return the features that it is to show."""
        own = [feature for feature in self.own if feature not in FEATURES]
        return [*(feature for feature in FEATURES if feature not in self.without), *own]


CHAT, RESPONSES, MESSAGES = "chat", "responses", "messages"
_CITY = {"city": "Paris"}
_OPENAI = "openai==3.57.0"
_LANGCHAIN_OPENAI = "langchain-openai==1.7.4"
_PYDANTIC_AI = "pydantic-ai-slim[openai,anthropic]==2.68.0"
_LITELLM = "litellm==1.110.2"
_TENACITY = "tenacity==9.2.1"
_AGENTS = "openai-agents==0.24.0"
_OPENAI_NODE = "openai@7.59.0"
_AI = "ai@6.0.325"
_AI_PARTS = (
    _AI,
    "@ai-sdk/openai@3.0.141",
    "@ai-sdk/openai-compatible@2.0.92",
    "@ai-sdk/anthropic@3.0.140",
    "zod@4.6.7",
)


def _both(**helpers: object) -> dict[str, object]:
    """Return what ``helpers`` of a library give, by name, of its synchronous and of its asynchronous client. Beside them, it
    has no parameter that our table lacks."""
    both = {f"{way}{name}": seen for name, seen in helpers.items() for way in ("", "async ")}
    return {"helpers": {**both, "unknown_parameters": []}}


_OF_CHAT = _both(
    parse=WEATHER,
    beta_parse=WEATHER,
    parsed_call=_CITY,
    stream=STORY,
    beta_stream=STORY,
    typed_stream=WEATHER,
)
_OF_RESPONSES = _both(parse=WEATHER, parsed_call=_CITY, stream=STORY, typed_stream=WEATHER)
_OF_MESSAGES_IN_NODE = {
    "parse": WEATHER,
    "stream": STORY,
    "beta_stream": STORY,
    "tool_runner": SEEN["tools"],
    "streamed_tool_runner": SEEN["tools"],
}
_OF_MESSAGES = _both(
    parse=WEATHER,
    beta_parse=WEATHER,
    stream=STORY,
    beta_stream=STORY,
    typed_stream=WEATHER,
    tool_runner=SEEN["tools"],
    streamed_tool_runner=SEEN["tools"],
)

SDKS: Sequence[Client] = (
    Client("openai, chat completions", PYTHON, [_OPENAI], CHAT, "openai_chat.py", own=_OF_CHAT),
    Client("openai, responses", PYTHON, [_OPENAI], RESPONSES, "openai_responses.py", own=_OF_RESPONSES),
    Client("anthropic", PYTHON, ["anthropic==2.14.0"], MESSAGES, "anthropic_messages.py", own=_OF_MESSAGES),
    Client("openai-agents", PYTHON, [_AGENTS], RESPONSES, "agents_sdk.py"),
    Client("openai-agents, chat completions", PYTHON, [_AGENTS], CHAT, "agents_sdk.py"),
    Client("langchain-openai", PYTHON, [_LANGCHAIN_OPENAI], CHAT, "langchain_models.py"),
    Client("langchain-openai, responses", PYTHON, [_LANGCHAIN_OPENAI], RESPONSES, "langchain_models.py"),
    Client("langchain-anthropic", PYTHON, ["langchain-anthropic==1.7.10"], MESSAGES, "langchain_models.py"),
    Client("litellm", PYTHON, [_LITELLM, _TENACITY], CHAT, "litellm_completion.py"),
    Client("litellm, messages", PYTHON, [_LITELLM, _TENACITY], MESSAGES, "litellm_completion.py"),
    Client("pydantic-ai", PYTHON, [_PYDANTIC_AI], CHAT, "pydantic_ai_agent.py"),
    Client("pydantic-ai, responses", PYTHON, [_PYDANTIC_AI], RESPONSES, "pydantic_ai_agent.py"),
    Client("pydantic-ai, messages", PYTHON, [_PYDANTIC_AI], MESSAGES, "pydantic_ai_agent.py"),
    Client(
        "instructor",
        PYTHON,
        ["instructor==1.17.0"],
        CHAT,
        "instructor_client.py",
        without=("tools",),
        own={
            "text": "Paris",
            "stream": [{"city": None, "celsius": None}, WEATHER],
            "retry": WEATHER,
        },
    ),
    Client("llm", PYTHON, ["llm==0.36"], CHAT, "llm_library.py"),
    Client(
        "openai for Node, chat completions",
        NODE,
        [_OPENAI_NODE],
        CHAT,
        "openai_node.mjs",
        own={"helpers": {"stream": STORY, "streamed_tools": SEEN["tools"]}},
    ),
    Client(
        "openai for Node, responses",
        NODE,
        [_OPENAI_NODE],
        RESPONSES,
        "openai_node.mjs",
        own={"helpers": {"stream": STORY}},
    ),
    Client(
        "@anthropic-ai/sdk",
        NODE,
        ["@anthropic-ai/sdk@1.14.0"],
        MESSAGES,
        "anthropic_node.mjs",
        own={"helpers": _OF_MESSAGES_IN_NODE},
    ),
    Client(
        "HttpClient of the JDK",
        JAVA,
        ["openjdk@17"],
        CHAT,
        "JdkClient.java",
        without=("tools", "typed", "retry"),
    ),
    Client("AI SDK, @ai-sdk/openai-compatible", NODE, _AI_PARTS, CHAT, "ai_sdk.mjs"),
    Client("AI SDK, @ai-sdk/openai", NODE, _AI_PARTS, RESPONSES, "ai_sdk.mjs"),
    Client("AI SDK, @ai-sdk/anthropic", NODE, _AI_PARTS, MESSAGES, "ai_sdk.mjs"),
)
"""The libraries. Those with more than one surface have a row for each."""
