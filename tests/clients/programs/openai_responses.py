"""OpenAI's SDK, responses."""

import json

import course
import openai
from openai.types.responses.response_create_params import ResponseCreateParamsBase
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


def said(script, **more):
    return {"model": MODEL, "input": course.follow(script), **more}


class City(BaseModel):
    """A city."""

    city: str


CALLABLE = openai.pydantic_function_tool(City, name="get_weather")
other = openai.AsyncOpenAI(base_url=client.base_url, api_key=client.api_key)


def called(done):
    return next(item for item in done.output if item.type == "function_call").parsed_arguments.model_dump()


def streamed(script, **more):
    with client.responses.stream(**said(script, **more)) as events:
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        return "".join(pieces), events.get_final_response()


async def streamed_async(script, **more):
    async with other.responses.stream(**said(script, **more)) as events:
        pieces = [event.delta async for event in events if event.type == "response.output_text.delta"]
        return "".join(pieces), await events.get_final_response()


async def parse_async():
    return (await other.responses.parse(**said("typed", text_format=Weather))).output_parsed.model_dump()


async def call_async():
    return called(await other.responses.parse(**said("weather", tools=[CALLABLE])))


async def text_async():
    return (await streamed_async("story"))[0]


async def typed_async():
    return (await streamed_async("typed", text_format=Weather))[1].output_parsed.model_dump()


def helpers():
    return course.each(
        {
            "unknown_parameters": lambda: course.unknown(ResponseCreateParamsBase),
            "parse": typed,
            "parsed_call": lambda: called(client.responses.parse(**said("weather", tools=[CALLABLE]))),
            "stream": lambda: streamed("story")[0],
            "typed_stream": lambda: streamed("typed", text_format=Weather)[1].output_parsed.model_dump(),
            "async parse": parse_async,
            "async parsed_call": call_async,
            "async stream": text_async,
            "async typed_stream": typed_async,
        }
    )


course.run(
    answer.output_text,
    stream=stream,
    tools=tools,
    typed=typed,
    refused=refused,
    helpers=helpers,
    retry=retry,
)
