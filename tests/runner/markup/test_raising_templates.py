"""Templates that render a conversation and raise as soon as they are given tools: why, in the template's own words.

Each template raises in one way; in each way where ``RECONCILER_FUZZ_EXAMPLES`` is set.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconciler.runner.requests.prompt import tools_problem

from .collection import templates
from .test_templates import UNNAMED, tokenizer_of

RAISES = {
    "{{ raise_exception('no tools,\\nplease') }}": "no tools, please",
    "{{ raise_exception('') }}": "TemplateError",
    "{{ tools.nothing.here }}": "has no attribute 'nothing'",
    "{{ tools[0] + 1 }}": "unsupported operand type",
    "{{ 1 // 0 }}": "division",
    "{% for a, b, c in tools[0].function.name %}{% endfor %}": "not enough values to unpack",
}
"""Ways to raise, and a part of what each says."""
WITH_FUNCTIONS = ("fireworks-ai-llama-3-firefunction-v2",)
"""Templates that need a variable ``functions`` as well."""


@pytest.mark.second_tier
@pytest.mark.parametrize("way", RAISES)
def test_any_template_that_raises_only_with_tools_says_why_and_renders_without(
    way: str, tmp_path: Path
) -> None:
    first, every = list(RAISES).index(way), len(RAISES)
    if "RECONCILER_FUZZ_EXAMPLES" in os.environ:
        first, every = 0, 1
    for name, template in list(templates().items())[first::every]:
        folder = tmp_path / name
        folder.mkdir()
        tokenizer = tokenizer_of(
            "{% if tools %}" + way + "{% endif %}" + template, folder, UNNAMED.get(name, ())
        )
        why = tools_problem(tokenizer)
        assert why.startswith("this model's chat template raises with tools: "), (name, why)
        assert RAISES[way] in why, (name, why)
        assert "\n" not in why
        if name in WITH_FUNCTIONS:
            continue
        assert "question" in tokenizer.render([{"role": "user", "content": "question"}], ()), name
