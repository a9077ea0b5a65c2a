"""LangChain: the same for each of its models."""

import course
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel
from setup import answer, model


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city, in degrees."""
    return course.get_weather(city)


def stream():
    return [chunk.text for chunk in model.stream(course.follow("story")) if chunk.text]


def tools():
    messages = [HumanMessage(course.follow("weather"))]
    able = model.bind_tools([get_weather])
    for _ in range(4):
        said = able.invoke(messages)
        if not said.tool_calls:
            return said.text
        messages.append(said)
        messages += [
            ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]) for call in said.tool_calls
        ]
    return "no end"


def typed():
    held = model.with_structured_output(Weather, method="json_schema")
    return held.invoke(course.follow("typed")).model_dump()


def refused():
    try:
        model.bind(temperature=9).invoke(course.follow("story"))
    except Exception as error:  # noqa: BLE001  its class is that of the SDK below
        return course.refusal(error.status_code, str(error))


def retry():
    return model.invoke("Say hello.").text


course.run(answer.text, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
