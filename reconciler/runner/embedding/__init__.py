"""Models for embeddings: what their files say of it, how a vector is computed, and the loop that does it.

Start with ``layout.py``. Such a rank is alone in its group: it takes no steps that others would have to follow.
"""
