"""Secrets in files that people make by hand: tokens, passwords, URLs and private keys.

Editors and copying add line ends of other systems, a byte order mark and blanks. These are removed; other mistakes are
named. No message has a part of a secret.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import Invalid

FILE_BYTES_MAX = 64 * 1024
CHARACTERS_MAX = 4096
"""Longest secret of one line."""
_KEY_LINE = 70
"""Length of the lines of a private key as ``ssh-keygen`` writes them."""
_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY)-----(.*?)-----END \1-----", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/=]+")
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060\u00ad"
"""Characters that pages and editors add to a copied text: zero-width ones, and the soft hyphen."""


def find_secret(file: str | Path | None, env: str | None, environ: Mapping[str, str]) -> str:
    """Return the secret in ``file``, or in the variable ``env`` of ``environ``. Raises ``Invalid``, which names the place."""
    if file is not None:
        return read_secret(file)
    name = env or ""
    if not environ.get(name, "").strip():
        raise Invalid(
            f"the environment of `reconciler up` has no {name}; set it, and restart `reconciler up`"
        )
    return one_line(environ[name], name)


def read_secret(path: str | Path) -> str:
    """Return the one line of a file. ``~`` is the user's home. Raises ``Invalid``, which names the file."""
    return one_line(_text(Path(path).expanduser()), str(path))


def one_line(text: str, source: str) -> str:
    """Return the one line that ``text`` holds, without blanks and invisible characters around it.

    ``source``: the file or variable, for people. Raises ``Invalid`` for an empty text, several lines, and characters
    that headers and protocols cannot carry.
    """
    lines = [found for line in text.splitlines() if (found := _stripped(line))]
    if len(lines) != 1:
        number = f"{len(lines)} lines" if lines else "nothing"
        raise Invalid(f"{source} holds {number}; expected one line with the secret alone")
    (line,) = lines
    if line[0] == line[-1] and line[0] in "\"'" and len(line) > 1:
        raise Invalid(f"{source} holds a secret in quotes; remove them")
    odd = next((letter for letter in line if not letter.isascii() or not letter.isprintable()), "")
    if odd:
        name = unicodedata.name(odd, f"control character U+{ord(odd):04X}")
        raise Invalid(
            f"{source} has {name} in column {line.index(odd) + 1}; write the secret again, in plain text"
        )
    if len(line) > CHARACTERS_MAX:
        raise Invalid(f"{source} has {len(line)} characters, the most is {CHARACTERS_MAX}")
    return line


def read_private_key(path: str | Path) -> str:
    """Return a private key in OpenSSH's form, without added line ends, blanks or marks.

    Raises ``Invalid``, which names the file and says what it is instead.
    """
    text = _text(Path(path).expanduser())
    found = _KEY.search(text.replace("\\r", "").replace("\\n", "\n"))
    if found is None:
        raise Invalid(f"{path} {_instead(text)}")
    kind, lines = found[1], [_stripped(line) for line in found[2].splitlines()]
    if ":" in found[2]:  # the headers of an encrypted key in PEM's older form
        body = "\n".join(lines).strip("\n")
    else:
        joined = "".join("".join(lines).split())
        if not _BASE64.fullmatch(joined):
            raise Invalid(
                f"{path} is damaged: a private key has letters, digits, + and / alone between its first and last line"
            )
        body = "\n".join(joined[at : at + _KEY_LINE] for at in range(0, len(joined), _KEY_LINE))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"


def _instead(text: str) -> str:
    words = text.split(maxsplit=1)
    if not words:
        return "is empty; expected a private key"
    if words[0].startswith(("ssh-", "ecdsa-", "sk-")):
        return "is a public key; name the private one, which has no .pub"
    if words[0].startswith("PuTTY"):
        return "is a key of PuTTY; convert it: puttygen FILE -O private-openssh -o NEW-FILE"
    return "is no private key: it lacks a line -----BEGIN … PRIVATE KEY----- or -----END …-----"


def _text(path: Path) -> str:
    """Return a file's text. Raises ``Invalid``."""
    try:
        if path.exists() and not path.is_file():
            raise Invalid(f"{path} is no file")  # a pipe would never end
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    except RuntimeError as error:  # ~ of a user that does not exist
        raise Invalid(f"{path} cannot be read: {error}") from None
    if len(content) > FILE_BYTES_MAX:
        raise Invalid(f"{path} is larger than {FILE_BYTES_MAX // 1024} KiB; expected a secret alone")
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{path} cannot be read: it is not text") from None


def _stripped(line: str) -> str:
    return line.strip(_INVISIBLE + " \t\u00a0\0")
