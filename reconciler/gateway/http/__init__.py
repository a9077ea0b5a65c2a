"""HTTP without any dialect: bodies in, JSON or streams out, clients that go away, and the checks before all endpoints.

Read ``endpoint`` first: it takes one request from its body to the end of its answer.
"""
