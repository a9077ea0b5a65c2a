"""Words that random questions, tools and results are made of."""

from __future__ import annotations


def words(text: str) -> list[str]:
    """List the words of `text`."""
    return text.split()


NOUNS = words(
    "weather node status deployment temperature memory model rank log time price forecast user file "
    "page city cluster order disk machine group replica address country distance population"
)
PARAMETERS = words("name city node id query target location model deployment path host key place value text")
WORDS = words(
    "apple river tiger guitar moon ocean bread cheese planet engine window garden music doctor train "
    "history queen winter coffee castle forest diamond teacher kitchen football island bridge camera "
    "pencil mountain shoe poem recipe novel movie song painter galaxy atom enzyme dragon violin tax "
    "visa hotel flight ticket banana horse whale car bicycle church lawyer market dollar king"
)
OPENINGS = (
    "Hi, ",
    "Hello, ",
    "Hey, ",
    "Please tell me: ",
    "Question: ",
    "So, ",
    "OK, ",
    "Tell me, ",
    "Good morning, ",
    "Hello! ",
    "Hi! ",
    "One question: ",
    "Now: ",
    "Quick question: ",
    "And ",
)
