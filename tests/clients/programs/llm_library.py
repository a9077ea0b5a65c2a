"""``llm``: as a library, with the model of its file ``extra-openai-models.yaml``."""

import course
import llm
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
        model.prompt(
            course.follow("story"), temperature=2, max_tokens=10, frequency_penalty=2, top_p=9
        ).text()
    except Exception as error:  # noqa: BLE001  its class is that of the SDK below, or llm's own
        return course.refusal(getattr(error, "status_code", type(error).__name__), str(error))


def retry():
    return model.prompt("Say hello.", stream=False).text()


assert isinstance(model, llm.Model)
course.run(answer, stream=stream, tools=tools, typed=typed, refused=refused, retry=retry)
