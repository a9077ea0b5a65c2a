"""The text of an answer, written as a model family writes it, as content, reasoning and tool calls. Pure."""
