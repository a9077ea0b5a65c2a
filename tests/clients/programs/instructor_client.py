"""instructor, which is for typed answers: by a tool, and by a schema."""

import course
import instructor
import openai
from pydantic import BaseModel
from setup import answer, client


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    celsius: int


def asked(script):
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": course.follow(script)}],
        "response_model": Weather,
    }


def typed():
    by_call = client.create(**asked("typed-by-call"))
    by_schema = instructor.from_openai(client.client, mode=instructor.Mode.JSON_SCHEMA).create(
        **asked("typed")
    )
    assert by_call.model_dump() == by_schema.model_dump(), by_call
    return by_schema.model_dump()


def stream():
    parts = [part.model_dump() for part in client.create_partial(**asked("typed-by-part"))]
    return [parts[0], parts[-1]]


def refused():
    try:
        client.create(**asked("typed-by-call"), temperature=9, max_retries=0)
    except Exception as error:  # noqa: BLE001  instructor wraps what it gets
        cause = error
        while cause is not None and not isinstance(cause, openai.APIStatusError):
            cause = cause.__cause__ or cause.__context__
        return course.refusal(cause.status_code, str(cause))


def retry():
    return client.create(**asked("typed-by-call")).model_dump()


course.run(answer.city, stream=stream, typed=typed, refused=refused, retry=retry)
