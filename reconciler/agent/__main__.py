"""``python -m reconciler.agent``; the shipped file starts the same way."""

from __future__ import annotations

import sys

from .entry import main

sys.exit(main())
