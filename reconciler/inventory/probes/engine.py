"""The MLX of the ranks' interpreter: its backends, and the memory that Metal lets it use."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reconciler.wire.tools import RunTool, ToolSaid

from .probe import Probe, Unknown, failed, number, unlike


@dataclass(frozen=True, slots=True)
class Engine:
    """MLX on one machine."""

    jaccl: bool
    """True if it has the JACCL backend."""
    working_set_bytes: int | None = None
    """Metal's recommended working set; None if MLX reports none, for instance without a GPU."""


def engine(result: ToolSaid) -> Engine | Unknown:
    """Parse the output of ``_ASK``: two lines, after any output of imports."""
    if result.code:
        return failed(ToolSaid(result.ending, result.code, stderr=result.stderr.strip().split("\n")[-1]))
    if result.stdout and not result.stdout.endswith("\n"):
        return Unknown("its output ends in the middle of a line")
    found = re.search(r"^jaccl (True|False)$", result.stdout, re.MULTILINE)
    if found is None:
        return unlike(result.stdout, "'jaccl True' or 'jaccl False'")
    return Engine(found[1] == "True", number(result.stdout, r"^working set ([1-9][0-9]*)$"))


_ASK = (
    "import mlx.core as mx; print('jaccl', mx.distributed.is_available('jaccl'));"
    " print('working set', mx.device_info().get('max_recommended_working_set_size'))"
)
ENGINE = Probe("MLX", RunTool(("{python}", "-I", "-c", _ASK), 40.0), engine, 600.0)
