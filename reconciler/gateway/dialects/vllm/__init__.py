"""vLLM's additions to OpenAI's API: tokens of a text or conversation, the text of tokens, the version.

Read ``tokens`` first. The names of fields are from vLLM (``entrypoints/serve/tokenize/protocol.py``). Errors are OpenAI's.
"""
