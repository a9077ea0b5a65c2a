"""The advice for a failed system call follows from its number, wherever Python names it."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.wire.shortage import ADVICE, explained

KINDS = (
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
)


@pytest.mark.parametrize("number", KINDS)
@pytest.mark.parametrize("path", [None, "/home/ada/.reconciler/nodes/a/ranks/tiny.0.1.0/spec.json"])
def test_each_kind_of_shortage_has_its_advice(number: int, path: str | None) -> None:
    error = OSError(number, os.strerror(number), path)
    assert explained(str(error)) == f"{error}; {ADVICE[number]}"
    assert explained(f"{type(error).__name__}: {error}").endswith(ADVICE[number])
    assert explained("cannot start python", number) == f"cannot start python; {ADVICE[number]}"


@given(
    st.sampled_from(KINDS),
    st.text(max_size=50).filter(lambda text: "[Errno" not in text),
    st.text(max_size=50),
)
def test_it_is_found_in_any_text_and_given_once(number: int, before: str, after: str) -> None:
    text = f"{before}{OSError(number, os.strerror(number))}{after}"
    once = explained(text)
    assert once == f"{text}; {ADVICE[number]}"
    assert explained(once) == once


@given(st.text(max_size=80))
def test_a_text_without_such_an_error_stays_as_it_is(text: str) -> None:
    assert explained(text) == text or any(f"[Errno {number}]" in text for number in KINDS)


def test_an_error_that_another_attempt_may_mend_has_none() -> None:
    for number in set(errno.errorcode) - set(KINDS):
        text = str(OSError(number, os.strerror(number)))
        assert explained(text) == text or number == errno.EWOULDBLOCK
