"""Examines machines and groups for ``reconciler doctor``: findings, and what is not known.

Pure. Troubles come from the plan, so that people see what the controller acts on; ``checks`` adds problems that no
group has met yet. Start with ``examine.py``.

============  ===============================================================
module        what it is
============  ===============================================================
``finding``   the nouns
``checks``    what is wrong with a machine that serves all the same, one row each
``silence``   what is not known of a machine, and why
``examine``   all of it together, in the order of the classes
============  ===============================================================
"""

from .examine import examine
from .finding import Examination, Finding, NotKnown

__all__ = ["Examination", "Finding", "NotKnown", "examine"]
