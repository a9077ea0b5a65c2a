"""``llm``: as a library, with the model of its file ``extra-openai-models.yaml``."""

import course
from pydantic import BaseModel
from setup import answer, model


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


def stream():
    return [piece for piece in model.prompt(course.follow("story"), stream=True) if piece]


def tools():
    return model.chain(course.follow("weather"), tools=[course.get_weather]).text()


def typed():
    return Weather.model_validate_json(
        model.prompt(course.follow("typed"), schema=Weather).text()
    ).model_dump()


def refused():
    try:
        model.prompt(course.follow("story"), max_tokens=-1).text()
    except Exception as error:  # noqa: BLE001  its class is that of the SDK below, or llm's own
        return course.refusal(error.status_code, str(error), "max_tokens")


def retry():
    return model.prompt("Say hello.", stream=False).text()


course.run(answer, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
