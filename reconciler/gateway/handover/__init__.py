"""One gateway takes over from another: its listening socket, its lock, and its counts. No client is refused.

``giving`` is the old gateway's side until it has let go, and ``heir`` its side afterwards. ``taking`` is the new
one's side until then, and ``predecessor`` its side afterwards. Both use ``lock`` for the lock in the home. The
messages are those of ``reconciler.wire.handover``.
"""
