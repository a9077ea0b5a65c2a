"""What is said in a state is typed in that state, exactly as it is said, and helps."""

from __future__ import annotations

import pytest

from .bench import Bench
from .of_a_controller import SCENES as OF_A_CONTROLLER
from .of_a_home import SCENES as OF_A_HOME
from .of_jobs import SCENES as OF_JOBS
from .scenes import Place, typed

pytestmark = pytest.mark.second_tier
SCENES = (*OF_A_HOME, *OF_A_CONTROLLER, *OF_JOBS)


@pytest.mark.parametrize("place", SCENES, ids=str)
def test_what_is_said_is_taken_and_helps(place: Place, bench: Bench) -> None:
    typed(place, bench)
