"""Anthropic's SDK."""

import anthropic
import course
from anthropic.types.beta import message_create_params
from anthropic.types.message_create_params import MessageCreateParamsBase
from pydantic import BaseModel
from setup import answer, client

MODEL = "tiny"
SENT_AS_HEADERS = "betas", "workspace_id"
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


other = anthropic.AsyncAnthropic(base_url=client.base_url, api_key=client.api_key)


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """The weather of a city, in degrees."""
    return course.get_weather(city)


@anthropic.beta_async_tool(name="get_weather")
async def get_weather_async(city: str) -> str:
    """The weather of a city, in degrees."""
    return course.get_weather(city)


def parsed(done):
    return done.parsed_output.model_dump()


def streamed(messages, script, **more):
    with messages.stream(**asked(script), **more) as events:
        return "".join(events.text_stream), events.get_final_message()


async def streamed_async(messages, script, **more):
    async with messages.stream(**asked(script), **more) as events:
        pieces = [piece async for piece in events.text_stream]
        return "".join(pieces), await events.get_final_message()


def run_tools():
    return text(client.beta.messages.tool_runner(**asked("weather"), tools=[get_weather]).until_done())


async def run_tools_async():
    runner = other.beta.messages.tool_runner(**asked("weather"), tools=[get_weather_async])
    return text(await runner.until_done())


def stream_tools():
    for turn in client.beta.messages.tool_runner(**asked("weather"), tools=[get_weather], stream=True):
        last = turn.get_final_message()
    return text(last)


async def stream_tools_async():
    runner = other.beta.messages.tool_runner(**asked("weather"), tools=[get_weather_async], stream=True)
    async for turn in runner:
        last = await turn.get_final_message()
    return text(last)


async def parse_async(messages):
    return parsed(await messages.parse(**asked("typed"), output_format=Weather))


async def text_async(messages):
    return (await streamed_async(messages, "story"))[0]


async def typed_async():
    return parsed((await streamed_async(other.messages, "typed", output_format=Weather))[1])


def unknown_parameters():
    found = course.unknown(MessageCreateParamsBase, message_create_params.MessageCreateParamsBase)
    return [name for name in found if name not in SENT_AS_HEADERS]


def helpers():
    return course.each(
        {
            "unknown_parameters": unknown_parameters,
            "parse": typed,
            "beta_parse": lambda: parsed(client.beta.messages.parse(**asked("typed"), output_format=Weather)),
            "stream": lambda: streamed(client.messages, "story")[0],
            "beta_stream": lambda: streamed(client.beta.messages, "story")[0],
            "typed_stream": lambda: parsed(streamed(client.messages, "typed", output_format=Weather)[1]),
            "tool_runner": run_tools,
            "streamed_tool_runner": stream_tools,
            "async parse": lambda: parse_async(other.messages),
            "async beta_parse": lambda: parse_async(other.beta.messages),
            "async stream": lambda: text_async(other.messages),
            "async beta_stream": lambda: text_async(other.beta.messages),
            "async typed_stream": typed_async,
            "async tool_runner": run_tools_async,
            "async streamed_tool_runner": stream_tools_async,
        }
    )


course.run(
    text(answer),
    stream=stream,
    tools=tools,
    typed=typed,
    refused=refused,
    helpers=helpers,
    retry=retry,
)
