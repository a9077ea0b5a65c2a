"""Random argument values, words and tools: what the model must copy and can never memorise.

Every function takes the generator of random numbers, so that a seed fixes the whole corpus.
`is_held_out` keeps one value in eight out of training, which gives an endless supply of values for
the evaluation that are certain to be unseen.
"""

from __future__ import annotations

import random
import string
import zlib

from words import words

CONSONANTS = "bcdfghjklmnpqrstvwz"
VOWELS = "aeiou"
HOSTS = words(
    "studio mini mac node macbook host server worker gpu rack lab box peer rank alpha beta gamma "
    "north south east west red green blue"
)
PLACES = words("desk shelf floor cellar garage attic hall corner left right top bottom upper lower")
CHIPS = words("m1 m2 m3 m4 m2pro m3max m4pro m1ultra")
MODELS = words("qwen3 mistral gemma phi deepseek glm kimi coder granite olmo falcon")
SIZES = words("0.6b 1b 3b 4b 7b 8b 13b 14b 32b 123b 235b 405b 671b")
SUFFIXES = words("instruct chat 4bit 8bit fp16 base mlx dwq")
CITIES = words(
    "Vienna Madrid Warsaw Dublin Athens Prague Cairo Lima Quito Seoul Sydney Chicago Boston Milan "
    "Naples Geneva Munich Hamburg Porto Bergen"
)
DOMAINS = words("local lan home example.com internal test")


def is_held_out(value: str) -> bool:
    """Say whether `value` is kept out of training, by its checksum alone."""
    return zlib.crc32(value.encode()) % 8 == 0


def syllables(rng: random.Random, low: int = 1, high: int = 4) -> str:
    """Make a word that can be pronounced, of `low` to `high` syllables."""
    parts = []
    for _ in range(rng.randint(low, high)):
        parts.append(rng.choice(CONSONANTS) + rng.choice(VOWELS))
        if rng.random() < 0.4:
            parts.append(rng.choice("nrslmtkx"))
    return "".join(parts)


def letters(rng: random.Random, low: int = 2, high: int = 9) -> str:
    """Make a string of random letters, sometimes capital ones."""
    size = rng.randint(low, high)
    alphabet = rng.choice(
        (string.ascii_lowercase, string.ascii_lowercase, string.ascii_uppercase, string.ascii_letters)
    )
    return "".join(rng.choice(alphabet) for _ in range(size))


def number(rng: random.Random) -> str:
    """Make a number of one to five digits, small ones more often."""
    return str(rng.randrange(10 ** rng.choice((1, 1, 2, 2, 3, 5))))


def mixture(rng: random.Random) -> str:
    """Make a string of letters and digits, such as a serial number or a commit."""
    alphabet = rng.choice(
        (
            string.hexdigits[:16],
            string.ascii_lowercase + string.digits,
            string.ascii_uppercase + string.digits,
        )
    )
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(3, 10)))


def part(rng: random.Random, vocabulary: list[str] | None) -> str:
    """Make one part of a compound name."""
    draw = rng.random()
    if draw < 0.25:
        return rng.choice(rng.choice((HOSTS, PLACES, MODELS)))
    if draw < 0.55:
        return syllables(rng)
    if draw < 0.70 and vocabulary:
        return "".join(rng.choice(vocabulary) for _ in range(rng.randint(1, 3)))
    if draw < 0.85:
        return letters(rng, 1, 6)
    return rng.choice(CHIPS) if draw < 0.9 else mixture(rng)


def host(rng: random.Random, vocabulary: list[str] | None) -> str:
    """Make the name of a machine, such as two words and a number, perhaps with a domain."""
    parts = [part(rng, vocabulary) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    if rng.random() < 0.6:
        parts.append(rng.choice((number(rng), number(rng), rng.choice(string.ascii_lowercase))))
    name = rng.choice("----_.").join(parts)
    if rng.random() < 0.2:
        name += "." + rng.choice(DOMAINS)
    return name


def model(rng: random.Random, vocabulary: list[str] | None) -> str:
    """Make the name of a model with a version, a size and a suffix."""
    family = rng.choice(MODELS) if rng.random() < 0.4 else part(rng, vocabulary)
    parts = [family]
    if rng.random() < 0.5:
        parts.append(f"{rng.randrange(10)}.{rng.randrange(10)}" if rng.random() < 0.7 else number(rng))
    parts.append(rng.choice(SIZES) if rng.random() < 0.5 else f"{number(rng)}b")
    if rng.random() < 0.4:
        parts.append(rng.choice(SUFFIXES))
    return "-".join(parts)


def place(rng: random.Random, vocabulary: list[str] | None) -> str:
    """Make a name with a capital letter, of one or two words."""

    def one() -> str:
        if rng.random() < 0.25:
            return rng.choice(CITIES)
        if vocabulary and rng.random() < 0.3:
            return "".join(rng.choice(vocabulary) for _ in range(2)).lower().capitalize()
        return syllables(rng, 2, 4).capitalize()

    return one() if rng.random() < 0.75 else f"{one()} {one()}"


def any_value(rng: random.Random, vocabulary: list[str] | None = None) -> str:
    """Make one value of any shape, held out or not."""
    draw = rng.random()
    if draw < 0.40:
        return host(rng, vocabulary)
    if draw < 0.55:
        return model(rng, vocabulary)
    if draw < 0.72:
        return place(rng, vocabulary)
    if draw < 0.82:
        return syllables(rng, 2, 4)
    if draw < 0.90:
        return mixture(rng)
    if vocabulary and draw < 0.96:
        return "".join(rng.choice(vocabulary) for _ in range(rng.randint(2, 5)))
    return letters(rng)


def value(rng: random.Random, vocabulary: list[str] | None = None) -> str:
    """Make one value for training: never one that is held out."""
    while is_held_out(made := any_value(rng, vocabulary)):
        pass
    return made


def unseen_values(seed: int, count: int) -> list[str]:
    """Make `count` different values that training never sees."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        made = any_value(rng)
        if is_held_out(made):
            found[made] = None
    return list(found)
