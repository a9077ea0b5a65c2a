"""pydantic-ai: the same for each of its models."""

import course
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from setup import answer, model


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


async def stream():
    async with Agent(model).run_stream(course.follow("story")) as told:
        return [piece async for piece in told.stream_text(delta=True, debounce_by=None)]


async def tools():
    done = await Agent(model, tools=[course.get_weather]).run(course.follow("weather"))
    return done.output


async def typed():
    called = await Agent(model, output_type=ToolOutput(Weather)).run(course.follow("typed-by-result"))
    if model.profile.get(
        "supports_json_schema_output"
    ):  # not for models of Anthropic that the library does not know
        native = await Agent(model, output_type=NativeOutput(Weather)).run(course.follow("typed"))
        assert native.output == called.output, native.output
    return called.output.model_dump()


async def refused():
    try:
        await Agent(model).run(course.follow("story"), model_settings={"temperature": 9})
    except Exception as error:  # noqa: BLE001  its class is that of the library
        return course.refusal(error.status_code, str(error))


async def retry():
    return (await Agent(model).run("Say hello.")).output


course.run(answer.output, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
