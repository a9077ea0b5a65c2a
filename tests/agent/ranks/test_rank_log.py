"""Output of a rank on disk: bounded, and read by offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.ranks import log as rank_log
from reconciler.agent.ranks.log import RankLog, last_line, read_log, segments
from reconciler.wire.node import Log


def test_only_the_newest_output_is_kept(tmp_path: Path) -> None:
    log = RankLog(tmp_path, segment_bytes_max=100)
    for number in range(100):
        log.write(b"%09d\n" % number)
    log.close()

    kept = segments(tmp_path)

    assert [start for start, _ in kept] == [800, 900]
    assert sum(path.stat().st_size for _, path in kept) == 200
    assert read_log(tmp_path, 1000, None) == Log(
        "".join(f"{n:09d}\n" for n in range(80, 100)), 1000, begin=800, rest_bytes=0
    )


def test_output_that_is_removed_while_it_is_read_stands_for_the_oldest_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RankLog(tmp_path, segment_bytes_max=10)
    log.write(b"0123456789" * 2)
    found = segments(tmp_path)
    log.write(b"abc")
    log.close()
    looks = iter([found, segments(tmp_path)])
    monkeypatch.setattr(rank_log, "segments", lambda directory: next(looks))

    assert read_log(tmp_path, 100, 0) == Log("0123456789abc", 23, begin=10, rest_bytes=13)


def test_an_offset_that_is_gone_stands_for_the_oldest_that_is_left(tmp_path: Path) -> None:
    log = RankLog(tmp_path, segment_bytes_max=10)
    log.write(b"0123456789" * 5)
    log.close()

    assert read_log(tmp_path, 5, offset=3) == Log("01234", 35, begin=30, rest_bytes=5)
    assert read_log(tmp_path, 5, offset=1000) == Log("", 50, begin=50, rest_bytes=0)


def test_what_is_no_text_is_replaced_and_counted_as_the_bytes_that_it_was(tmp_path: Path) -> None:
    log = RankLog(tmp_path, segment_bytes_max=100)
    log.write(b"\xff\xfe line\nrest \xff\xff")
    log.close()

    found = read_log(tmp_path, 100, None)

    assert found == Log("\ufffd\ufffd line\nrest \ufffd\ufffd", 15, begin=0, rest_bytes=7)


def test_of_bytes_that_no_character_has_only_as_many_are_skipped_as_one_could_have(tmp_path: Path) -> None:
    log = RankLog(tmp_path, segment_bytes_max=100)
    log.write(b"\x80" * 20)
    log.close()

    assert read_log(tmp_path, 8, None) == Log("\ufffd" * 5, 20, begin=15, rest_bytes=5)


def test_without_output_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert read_log(tmp_path, 100, None).text == ""
    assert last_line(tmp_path) == ""


@given(text=st.text(max_size=60), piece=st.integers(4, 20), segment=st.integers(8, 40))
def test_pieces_join_to_the_text_wherever_they_are_cut(
    tmp_path_factory: object, text: str, piece: int, segment: int
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        content = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        log = RankLog(directory, segment_bytes_max=1000)
        log.write(content.encode())
        log.close()

        read, offset = "", 0
        while (found := read_log(directory, piece, offset)).text:
            read, offset = read + found.text, found.offset

        assert read == content
        assert content.endswith(read_log(directory, segment, None).text)
