"""Bugs that nobody has chosen: rules over the syntax tree of the rooms that decide and act.

``spots`` yields what may be changed, ``rules`` says how, and ``drawing`` names every such bug and draws a sample. A bug
is judged by the tests of the first tier that reach its line: ``recording`` notes in one run of these tests which lines
each of them reaches, and ``reaching`` chooses from that. ``report`` prints what survived.
"""
