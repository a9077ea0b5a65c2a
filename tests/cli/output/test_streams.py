"""What a terminal gets: what it can show, and nothing that it would obey."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.output import streams
from reconciler.cli.output.streams import shown
from reconciler.cli.output.table_layout import plain

_ROOT = Path(__file__).parents[3]
TEXTS = sorted([*_ROOT.glob("tests/cli/golden/**/*.txt"), *_ROOT.glob("docs/**/*.md")])
ENCODINGS = [
    "ascii",
    "iso-8859-1",
    "iso-8859-15",
    "cp1252",
    "cp437",
    "koi8-r",
    "shift_jis",
    "euc_kr",
    "gb2312",
    "big5",
    "utf-8",
]
OBEYED = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "title, closed otherwise": "\x1b]2;owned\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "link": "\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\",
    "answers": "\x1b[6n\x1b[c\x1b[>c",
    "device control": "\x1bP+q544e\x1b\\",
    "alternate screen": "\x1b[?1049h",
    "hidden": "\x1b[8mhidden\x1b[28m",
    "one-byte CSI": "\x9b31mred",
    "character set": "\x1b(0lqk\x1b(B",
    "reset": "\x1bc",
    "cut off": "text\x1b[",
    "cut off within a title": "text\x1b]0;owned",
    "overprinted": "harmless\rrm -rf /",
    "backspaces": "rm\x08\x08ls",
    "bell": "\x07\x07",
    "reversed": "txt.\u202eexe",
    "shift out": "\x0eabc\x0f",
    "form feed": "a\x0cb",
}
pieces = st.one_of(
    st.sampled_from([*OBEYED.values(), "\x1b", "[", "]", "\n", "\t", "ü", "模型"]), st.text(max_size=5)
)


@pytest.mark.parametrize("name", OBEYED)
def test_nothing_that_a_terminal_obeys_reaches_it(name: str) -> None:
    text = shown(f"before {OBEYED[name]} after\n")
    assert not any((letter < " " and letter not in "\n\t") or "\x7f" <= letter < "\xa0" for letter in text)
    assert text.startswith("before ")
    assert "owned" not in text
    assert "\u202e" not in text


@given(st.lists(pieces, max_size=12).map("".join), st.sampled_from(["", "red", "green", "yellow"]))
def test_no_command_hands_to_a_terminal_what_it_would_obey(text: str, colour: str) -> None:
    out = io.BytesIO()
    terminal = streams.Terminal(out, "utf-8", "replace")
    click.echo(click.style("own", fg=colour or None) + text, file=terminal, color=True)
    streams.erase_line(terminal)
    terminal.flush()
    got = re.sub(r"\x1b\[(?:0|1|3[1-6])m", "", out.getvalue().decode()).removesuffix("\r\x1b[K")
    assert got.startswith("own")
    assert not {letter for letter in got if not letter.isprintable()} - {"\n", "\t"}


def test_a_terminal_is_written_to_in_this_way() -> None:
    ours, theirs = os.openpty()
    text = "import click; from reconciler.cli.output.streams import prepare; prepare(); click.echo('a\\x1b]0;owned\\x07b')"
    subprocess.run(
        [sys.executable, "-c", f"{text}; click.echo('c\\x1bcd', err=True)"],
        stdout=theirs,
        stderr=theirs,
        timeout=60,
        check=True,
    )
    os.close(theirs)
    assert os.read(ours, 1000) == b"ab\r\ncd\r\n"
    os.close(ours)


@given(st.lists(pieces, max_size=12).map("".join))
def test_whatever_is_put_together(text: str) -> None:
    once = shown(text)
    assert not {letter for letter in once if not letter.isprintable()} - {"\n", "\t"}
    assert shown(once) == once
    assert plain(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_text_stays_as_it_is(text: str) -> None:
    kept = "".join(letter for letter in text if letter.isprintable())
    assert shown(kept) == kept


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_table_is_shown_in_every_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(TEXTS) * len(ENCODINGS) > 200
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    streams.prepare()
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        before = out.buffer.tell()
        print(text)
        out.flush()
        assert out.buffer.tell() - before >= len(text.splitlines())


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "utf-8"])
def test_a_command_prints_its_help_where_the_locale_has_few_characters(encoding: str) -> None:
    environment = {
        **os.environ,
        "PYTHONIOENCODING": encoding,
        "TERM": "dumb",
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
    }
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "get", "--help"],
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Usage: reconciler get" in done.stdout
