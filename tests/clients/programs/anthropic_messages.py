"""Anthropic's SDK."""

import anthropic
import course
from pydantic import BaseModel
from setup import answer, client

MODEL = "tiny"
TOOLS = [
    {
        "name": course.CITY["name"],
        "description": course.CITY["description"],
        "input_schema": course.CITY["parameters"],
    }
]


class Weather(BaseModel):
    """A typed answer."""

    city: str
    celsius: int


def asked(script, **more):
    return {
        "model": MODEL,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": course.follow(script)}],
        **more,
    }


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def stream():
    with client.messages.stream(**asked("story")) as events:
        pieces = list(events.text_stream)
        assert events.get_final_message().usage.output_tokens > 0
    return pieces


def tools():
    request = asked("weather", tools=TOOLS)
    for _ in range(4):
        with client.messages.stream(**request) as events:
            message = events.get_final_message()
        if message.stop_reason != "tool_use":
            return text(message)
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": course.get_weather(**block.input)}
            for block in message.content
            if block.type == "tool_use"
        ]
        request["messages"] += [
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": results},
        ]
    return "no end"


def typed():
    done = client.messages.parse(**asked("typed"), output_format=Weather)
    return done.parsed_output.model_dump()


def refused():
    try:
        client.messages.create(**asked("story"), extra_body={"temperature": 9})
    except anthropic.BadRequestError as error:
        return course.refusal(error.status_code, str(error))


def retry():
    hello = [{"role": "user", "content": "Say hello."}]
    return text(client.messages.create(model=MODEL, max_tokens=500, messages=hello))


course.run(text(answer), stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
