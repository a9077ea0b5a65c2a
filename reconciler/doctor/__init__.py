"""Examines machines and groups for ``reconciler doctor``: findings, and what is not known.

Pure. Troubles come from the plan, so that people see what the controller acts on; ``checks`` adds problems that no
group has met yet. Start with ``examine.py``.

===================  ===============================================================
module               purpose
===================  ===============================================================
``finding``          findings and unknown facts as values
``checks``           faults of a machine that serves all the same, one row each
``unknowns``         unknown facts of a machine, with the reason
``examine``          all findings, in the order of the classes
``state_directory``  findings about the controller's own files and services
``acceptance``       the checklist after bring-up
===================  ===============================================================
"""

from .examine import examine
from .finding import Examination, Finding, NotKnown
from .state_directory import HomeFinding, Up, examine_home, examine_repository, examine_up

__all__ = [
    "Examination",
    "Finding",
    "HomeFinding",
    "NotKnown",
    "Up",
    "examine",
    "examine_home",
    "examine_repository",
    "examine_up",
]
