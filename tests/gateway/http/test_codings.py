"""How much memory a body may ask of its decoder."""

from __future__ import annotations

import sys

import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.http.codings import decoded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MIB = 2**20


def frame(window_log: int) -> bytes:
    """A frame that says only how large its decoder's window has to be."""
    options: dict[int, int] = {
        zstd.CompressionParameter.window_log: window_log,
        zstd.CompressionParameter.content_size_flag: 0,
    }
    compressor = zstd.ZstdCompressor(options=options)
    return bytes(compressor.compress(b"hello") + compressor.flush())


@pytest.mark.parametrize("window_log", [10, 20, 23])
async def test_a_decoder_may_need_8_mib(window_log: int) -> None:
    assert await decoded(frame(window_log), ["zstd"], MIB) == b"hello"


@pytest.mark.parametrize("window_log", [24, 25, 27])
async def test_a_body_whose_decoder_needs_more_is_refused(window_log: int) -> None:
    with pytest.raises(ApiError) as refused:
        await decoded(frame(window_log), ["zstd"], MIB)
    assert refused.value.status == 400
