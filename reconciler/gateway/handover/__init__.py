"""One gateway takes over from another: its listening socket, its lock, and what it has counted. No client is refused.

``giving`` is the old gateway's side until it has let go, and ``heir`` what it says afterwards. ``taking`` is the new one's side,
and ``predecessor`` what it hears afterwards. ``lock`` is what both need of the lock in the home. The messages are those of
``reconciler.wire.handover``.
"""
