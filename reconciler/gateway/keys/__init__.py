"""Who may use the endpoint, and how much of it: keys, what each has left, and what each has used.

Read ``caller`` first: every request has one.
"""
