"""Pictures of a Fabric for `get fabric`: on a terminal in ``drawing.py``, as DOT and SVG in ``graph.py``."""
