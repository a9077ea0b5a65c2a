"""OpenAI's SDK, responses."""

import json

import course
import openai
from pydantic import BaseModel
from setup import answer, client

MODEL = "tiny"
TOOLS = [{"type": "function", **course.CITY, "strict": True}]


class Weather(BaseModel):
    """A typed answer."""

    city: str
    celsius: int


def stream():
    events = list(client.responses.create(model=MODEL, input=course.follow("story"), stream=True))
    assert events[-1].type == "response.completed", events[-1].type
    return [event.delta for event in events if event.type == "response.output_text.delta"]


def tools():
    items = [{"role": "user", "content": course.follow("weather")}]
    for _ in range(4):
        done = client.responses.create(model=MODEL, input=items, tools=TOOLS, store=False)
        calls = [item for item in done.output if item.type == "function_call"]
        if not calls:
            return done.output_text
        items += [item.model_dump(exclude_none=True) for item in done.output]
        for call in calls:
            result = course.get_weather(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
    return "no end"


def typed():
    done = client.responses.parse(model=MODEL, input=course.follow("typed"), text_format=Weather)
    return done.output_parsed.model_dump()


def refused():
    try:
        client.responses.create(model=MODEL, input=course.follow("story"), temperature=9)
    except openai.BadRequestError as error:
        return course.refusal(error.status_code, error.param)


def retry():
    return client.responses.create(model=MODEL, input="Say hello.").output_text


course.run(answer.output_text, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
