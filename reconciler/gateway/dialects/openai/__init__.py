"""OpenAI's API: chat completions, legacy completions, models and errors.

Read ``chat`` first: it shows how a body becomes a request, and an event a part of the answer.
"""
