"""OpenAI's Agents SDK: over responses, as it is by default, and over chat completions."""

import course
import openai
from agents import Agent, ModelSettings, Runner, function_tool
from pydantic import BaseModel
from setup import answer, model


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city, in degrees."""
    return course.get_weather(city)


def agent(**more):
    return Agent(name="Assistant", model=model, **more)


async def stream():
    run = Runner.run_streamed(agent(), course.follow("story"))
    return [
        event.data.delta
        async for event in run.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]


async def tools():
    return (await Runner.run(agent(tools=[get_weather]), course.follow("weather"))).final_output


async def typed():
    return (await Runner.run(agent(output_type=Weather), course.follow("typed"))).final_output.model_dump()


async def refused():
    try:
        await Runner.run(agent(model_settings=ModelSettings(temperature=9)), course.follow("story"))
    except openai.BadRequestError as error:
        return course.refusal(error.status_code, error.param)


async def retry():
    return (await Runner.run(agent(), "Say hello.")).final_output


course.run(answer.final_output, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
