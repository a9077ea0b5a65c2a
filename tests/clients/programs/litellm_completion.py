"""LiteLLM."""

import json

import course
import litellm
from pydantic import BaseModel
from setup import SETTINGS, answer

TOOLS = [{"type": "function", "function": course.CITY}]


class Weather(BaseModel):
    """A typed answer."""

    city: str
    celsius: int


def ask(script, **more):
    return litellm.completion(
        messages=[{"role": "user", "content": course.follow(script)}], **SETTINGS, **more
    )


def stream():
    pieces = [chunk.choices[0].delta.content for chunk in ask("story", stream=True)]
    return [piece for piece in pieces if piece]


def tools():
    messages = [{"role": "user", "content": course.follow("weather")}]
    for _ in range(4):
        message = litellm.completion(messages=messages, tools=TOOLS, **SETTINGS).choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump())
        for call in message.tool_calls:
            result = course.get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "no end"


def typed():
    # Of messages LiteLLM asks for a call of a tool of its own.
    script = "typed-for-litellm" if SETTINGS["model"].startswith("anthropic/") else "typed"
    return json.loads(ask(script, response_format=Weather).choices[0].message.content)


def refused():
    try:
        ask("story", temperature=9)
    except litellm.BadRequestError as error:
        return course.refusal(error.status_code, str(error))


def retry():
    hello = [{"role": "user", "content": "Say hello."}]
    return litellm.completion(messages=hello, num_retries=8, **SETTINGS).choices[0].message.content


course.run(
    answer.choices[0].message.content, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry
)
