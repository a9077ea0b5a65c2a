"""Python imports this when it starts: what a test starts is followed as the test itself is."""

import os

if os.environ.get("RECONCILER_REACHED") and os.environ.get("PYTEST_CURRENT_TEST"):
    from tests.mutants.generated.recorder import ROOMS, record_process

    record_process(ROOMS)
