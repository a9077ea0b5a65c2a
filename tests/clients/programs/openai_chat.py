"""OpenAI's SDK, chat completions."""

import json

import course
import openai
from pydantic import BaseModel
from setup import answer, client

MODEL = "tiny"
TOOLS = [{"type": "function", "function": course.CITY}]


class Weather(BaseModel):
    """A typed answer."""

    city: str
    celsius: int


def ask(script, **more):
    return client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": course.follow(script)}], **more
    )


def stream():
    chunks = ask("story", stream=True, stream_options={"include_usage": True})
    seen = list(chunks)
    assert seen[-1].usage.completion_tokens > 0
    return [
        chunk.choices[0].delta.content for chunk in seen if chunk.choices and chunk.choices[0].delta.content
    ]


def tools():
    messages = [{"role": "user", "content": course.follow("weather")}]
    for _ in range(4):
        done = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
        message = done.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = course.get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return "no end"


def typed():
    done = client.chat.completions.parse(
        model=MODEL,
        messages=[{"role": "user", "content": course.follow("typed")}],
        response_format=Weather,
    )
    return done.choices[0].message.parsed.model_dump()


def refused():
    try:
        ask("story", temperature=9)
    except openai.BadRequestError as error:
        return course.refusal(error.status_code, error.param)


def retry():
    done = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Say hello."}])
    return done.choices[0].message.content


course.run(
    answer.choices[0].message.content, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry
)
