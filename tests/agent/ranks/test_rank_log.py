"""Output of a rank on disk: bounded, and read by offsets."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reconciler.agent.ranks.log import RankLog, last_line, read_log, segments


def test_only_the_newest_output_is_kept(tmp_path: Path) -> None:
    log = RankLog(tmp_path, segment_bytes_max=100)
    for number in range(100):
        log.write(b"%09d\n" % number)
    log.close()

    kept = segments(tmp_path)

    assert [start for start, _ in kept] == [800, 900]
    assert sum(path.stat().st_size for _, path in kept) == 200
    assert read_log(tmp_path, 1000, None) == ("".join(f"{n:09d}\n" for n in range(80, 100)), 1000)


def test_an_offset_that_is_gone_stands_for_the_oldest_that_is_left(tmp_path: Path) -> None:
    log = RankLog(tmp_path, segment_bytes_max=10)
    log.write(b"0123456789" * 5)
    log.close()

    assert read_log(tmp_path, 5, offset=3) == ("01234", 35)
    assert read_log(tmp_path, 5, offset=1000) == ("", 50)


def test_without_output_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert read_log(tmp_path, 100, None) == ("", 0)
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
        while (found := read_log(directory, piece, offset))[0]:
            read, offset = read + found[0], found[1]

        assert read == content
        assert content.endswith(read_log(directory, segment, None)[0])
