"""What ``reconciler doctor`` tells of machines and groups: findings, and what is not known.

Pure. What a plan sees of troubles is taken from the plan, so that a person is told what the loop acts on; beside
that, machines are judged by what no group has met yet.

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
