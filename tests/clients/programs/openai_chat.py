"""OpenAI's SDK, chat completions."""

import json

import course
import openai
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
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


def said(script, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": course.follow(script)}], **more}


class City(BaseModel):
    """A city."""

    city: str


CALLABLE = openai.pydantic_function_tool(City, name="get_weather")


def parsed(done):
    return done.choices[0].message.parsed.model_dump()


def called(done):
    return done.choices[0].message.tool_calls[0].function.parsed_arguments.model_dump()


def streamed(completions, script, **more):
    with completions.stream(**said(script, **more)) as events:
        pieces = [event.delta for event in events if event.type == "content.delta"]
        return "".join(pieces), events.get_final_completion()


async def streamed_async(completions, script, **more):
    async with completions.stream(**said(script, **more)) as events:
        pieces = [event.delta async for event in events if event.type == "content.delta"]
        return "".join(pieces), await events.get_final_completion()


other = openai.AsyncOpenAI(base_url=client.base_url, api_key=client.api_key)
ours, beta = client.chat.completions, client.beta.chat.completions
theirs, their_beta = other.chat.completions, other.beta.chat.completions


async def parse_async(completions):
    return parsed(await completions.parse(**said("typed", response_format=Weather)))


async def call_async():
    return called(await theirs.parse(**said("weather", tools=[CALLABLE])))


async def text_async(completions):
    return (await streamed_async(completions, "story"))[0]


async def typed_async():
    return parsed((await streamed_async(theirs, "typed", response_format=Weather))[1])


def helpers():
    return course.each(
        {
            "unknown_parameters": lambda: course.unknown(CompletionCreateParamsBase),
            "parse": lambda: parsed(ours.parse(**said("typed", response_format=Weather))),
            "beta_parse": lambda: parsed(beta.parse(**said("typed", response_format=Weather))),
            "parsed_call": lambda: called(ours.parse(**said("weather", tools=[CALLABLE]))),
            "stream": lambda: streamed(ours, "story")[0],
            "beta_stream": lambda: streamed(beta, "story")[0],
            "typed_stream": lambda: parsed(streamed(ours, "typed", response_format=Weather)[1]),
            "async parse": lambda: parse_async(theirs),
            "async beta_parse": lambda: parse_async(their_beta),
            "async parsed_call": call_async,
            "async stream": lambda: text_async(theirs),
            "async beta_stream": lambda: text_async(their_beta),
            "async typed_stream": typed_async,
        }
    )


course.run(
    answer.choices[0].message.content,
    stream=stream,
    tools=tools,
    typed=typed,
    refused=refused,
    helpers=helpers,
    retry=retry,
)
