"""A new gateway takes over from the old one: its listening socket, its lock, and its counts. No client is refused.

``handing_over`` is the old gateway's side, ``taking_over`` the new one's. ``channel`` is the connection between them,
and ``reports`` finds what the old one has used since it was asked. The messages are those of
``reconciler.wire.handover``.
"""
