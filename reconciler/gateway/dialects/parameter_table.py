"""Every parameter that clients of OpenAI, vLLM, llama.cpp, mlx_lm.server or Anthropic may send. ``docs/endpoint.md`` has
the same table. Pure.

The names are from the request models of openai 3.52.0 (``types/chat/completion_create_params.py``), vLLM
(``entrypoints/openai/{chat_completion,completion}/protocol.py``, with the ``guided_*`` of before), llama.cpp
(``tools/server/server-task.cpp``), mlx-lm 0.32.2 (``server.py``), and those of
``anthropic_parameters``.
"""

from __future__ import annotations

from collections.abc import Mapping

from .anthropic_parameters import ANTHROPIC_ROWS, FORM
from .parameter import (
    ALL,
    ANTHROPIC,
    BOTH,
    LLAMA,
    MLX,
    ONLY_CHAT,
    ONLY_TEXT,
    OPENAI,
    TALKS,
    VLLM,
    Row,
    each,
)

ROWS: tuple[Row, ...] = (
    Row(
        each("model"),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "A name or an alias of `/v1/models`. Default: the only deployment.",
        ALL,
    ),
    Row(each("messages"), (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC), "The conversation.", TALKS),
    Row(
        each("prompt"),
        (OPENAI, VLLM, LLAMA, MLX),
        "A string, token ids, or a list of up to 64 of either.",
        ONLY_TEXT,
    ),
    Row(
        each("max_completion_tokens"),
        (OPENAI, VLLM, LLAMA, MLX),
        "Wins over `max_tokens`. Default: the rest of the context.",
        ONLY_CHAT,
    ),
    Row(
        each("max_tokens"),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "Default for chat: the rest of the context; for completions: 16. Messages require it.",
        ALL,
    ),
    Row(
        each("temperature top_p"),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "0 to 2; 0 to 1. Defaults: see below.",
        ALL,
    ),
    Row(each("top_k"), (VLLM, LLAMA, MLX, ANTHROPIC), "-1 or 0 for off.", ALL),
    Row(each("min_p"), (VLLM, LLAMA, MLX), "0 to 1.", ALL),
    Row(
        each("seed"),
        (OPENAI, VLLM, LLAMA, MLX),
        "64 bits. The same request with it has the same answer.",
        ALL,
    ),
    Row(each("n", 1), (OPENAI, VLLM, LLAMA), "Up to 8 answers with the seeds `seed`, `seed + 1`, …", BOTH),
    Row(
        each("stop"),
        (OPENAI, VLLM, LLAMA, MLX),
        "A string, or up to 4, each of at most 4096 characters.",
        BOTH,
    ),
    Row(
        each("logit_bias"),
        (OPENAI, VLLM, LLAMA, MLX),
        "Up to 1024 token ids of the model, each with a bias from -100 to 100.",
        ALL,
    ),
    Row(
        each("frequency_penalty presence_penalty"),
        (OPENAI, VLLM, LLAMA, MLX),
        "-2 to 2, taken off the logits of the answer's tokens: for each time that it has them; once.",
        ALL,
    ),
    Row(
        each("repetition_penalty"),
        (VLLM, MLX),
        "0.01 to 100, of the tokens of prompt and answer: positive logits are divided by it, others multiplied. 1 and 0 "
        "are off.",
        ALL,
    ),
    Row(
        each("min_tokens"),
        (VLLM,),
        "No end token or stop token is chosen, and no `stop` looked for, before the answer has so many tokens.",
        ALL,
    ),
    Row(each("ignore_eos"), (VLLM, LLAMA), "The answer goes on after the model's end token.", ALL),
    Row(
        each("stop_token_ids"),
        (VLLM,),
        "Up to 1024 token ids of the model that end the answer too. Their text is left out.",
        ALL,
    ),
    Row(
        each("logprobs", False),
        (OPENAI, VLLM, LLAMA, MLX),
        "For chat `true`; for completions a number from 0 to 20, not with `echo`. See below.",
        BOTH,
    ),
    Row(
        each("top_logprobs", 0),
        (OPENAI, VLLM, LLAMA, MLX),
        "0 to 20; more than 0 needs `logprobs`.",
        ONLY_CHAT,
    ),
    Row(
        each("stream"),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "Server-sent events, with `: keep-alive` comments, or events of type `ping`, during pauses.",
        ALL,
    ),
    Row(
        each("stream_options"),
        (OPENAI, VLLM, LLAMA, MLX),
        "`include_usage`; `include_obfuscation` has no effect; `continuous_usage_stats` is refused unless false.",
        BOTH,
    ),
    Row(
        each("tools", []),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "Functions. `strict` holds calls to nothing yet; `defer_loading` is refused unless false. [Messages](#messages-of-"
        "anthropic) drop tools of other types.",
        TALKS,
    ),
    Row(
        each("tool_choice", "none", "auto"),
        (OPENAI, VLLM, LLAMA, ANTHROPIC),
        "`auto` or `none`; other values are refused. Messages take an object: `auto`, `any`, `tool` or `none`, with "
        "`disable_parallel_tool_use`.",
        TALKS,
    ),
    Row(
        each("parallel_tool_calls", True, False),
        (OPENAI, VLLM, LLAMA),
        "`false` ends an answer after its first tool call.",
        ONLY_CHAT,
    ),
    Row(
        each("reasoning_effort", "none"),
        (OPENAI, VLLM, LLAMA),
        "Reaches the chat template. `none` switches reasoning off as `thinking` does.",
        ONLY_CHAT,
        on=BOTH,
    ),
    Row(
        each("thinking", False, {"type": "disabled"}),
        (VLLM, LLAMA, ANTHROPIC),
        'Reaches the chat template. `false` and `{"type": "disabled"}` switch reasoning off where the template can: as '
        "`enable_thinking` and `thinking`. Default: `serving.thinking` of the deployment, else as the template does. "
        "`budget_tokens` bounds nothing; with `display` `omitted`, messages have empty thinking blocks.",
        TALKS,
    ),
    Row(
        each("chat_template_kwargs", {}),
        (VLLM, LLAMA, MLX),
        "Further variables of the chat template; they win over the two above.",
        TALKS,
    ),
    Row(each("response_format"), (OPENAI, VLLM, LLAMA), "`text`; other values are refused.", BOTH),
    Row(
        each("prompt_cache_key session_id"),
        (OPENAI, VLLM),
        "As the header `x-session-affinity`: requests with the same value go to the same group, if it has not much more "
        "to do than another.",
        BOTH,
    ),
    Row(
        each("return_token_ids", False),
        (VLLM,),
        "Adds `prompt_token_ids` and `token_ids` to the answer.",
        ONLY_CHAT,
    ),
    Row(each("echo", False), (OPENAI, VLLM), "The text begins with the prompt.", ONLY_TEXT),
    Row(each("best_of", 1), (OPENAI, VLLM), "Refused unless it is `n`.", ONLY_TEXT),
    # --- accepted, whatever the value ---
    Row(
        each(
            "user store service_tier safety_identifier prompt_cache_retention prompt_cache_options cache_control "
            "user_profile_id billing_policy diagnostics"
        ),
        (OPENAI, ANTHROPIC),
        "for the bills, statistics and caches of a provider",
        harmless=True,
    ),
    Row(
        each(
            "cache_prompt n_cache_reuse id_slot num_draft_tokens backend_sampling speculative.type speculative.n_min "
            "speculative.n_max speculative.p_min speculative.ngram_size_n speculative.ngram_size_m "
            "speculative.ngram_m_hits"
        ),
        (LLAMA, MLX),
        "say how an answer is computed, not which it is",
        harmless=True,
    ),
    Row(
        each(
            "spaces_between_special_tokens truncation_side media_io_kwargs mm_processor_kwargs return_token_offsets "
            "return_mm_kwargs xtc_threshold dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers "
            "mirostat_tau mirostat_eta dynatemp_exponent adaptive_decay preserved_tokens n_discard "
            "reasoning_budget_start_tag reasoning_budget_end_tag reasoning_budget_message "
            "reasoning_budget_arm_immediately"
        ),
        (VLLM, LLAMA, MLX),
        "matter only with others, which are refused",
        harmless=True,
    ),
    # --- refused ---
    Row(
        {
            **each("guided_json guided_regex guided_choice guided_grammar guided_whitespace_pattern"),
            **each("guided_decoding_backend structured_outputs structural_tag json_schema"),
            **each("grammar", ""),
            **each("grammar_lazy", False),
            **each("grammar_triggers", []),
        },
        (VLLM, LLAMA),
        FORM,
    ),
    Row(
        {
            **each("typical_p typ_p tfs_z length_penalty", 1),
            **each("top_n_sigma adaptive_target", -1),
            **each("dry_multiplier mirostat dynatemp_range xtc_probability", 0),
            **each("min_keep", 0, 1),
            **each("samplers logits_processors", []),
            **each("watermarking use_beam_search early_stopping", False),
            **each("repetition_detection"),
        },
        (VLLM, LLAMA, MLX),
        "there is no such way to choose tokens",
    ),
    Row(
        {
            **each("repeat_penalty", 1, 0),
            **each("repeat_last_n", 64, -1),
            **each("penalize_nl", False),
            **each("repetition_context_size presence_context_size frequency_context_size", 20),
        },
        (LLAMA, MLX),
        "use `repetition_penalty`; penalties do not forget",
    ),
    Row(each("allowed_token_ids bad_words", []), (VLLM,), "use `logit_bias`"),
    Row(
        {
            **each("prompt_logprobs logprob_token_ids"),
            **each("n_probs", 0),
            **each("post_sampling_probs return_tokens_as_token_ids", False),
        },
        (VLLM, LLAMA),
        "use `logprobs`, which are those of the answer's tokens and of the likeliest ones",
    ),
    Row(
        {
            **each("n_predict", -1),
            **each("n_cmpl", 1),
            **each("t_max_predict_ms t_max_prompt_ms", 0, -1),
        },
        (LLAMA,),
        "use `max_tokens` and `n`",
    ),
    Row(
        {**each("functions", []), **each("function_call", "none", "auto")},
        (OPENAI,),
        "use `tools` and `tool_choice`",
    ),
    Row(
        {
            **each("thinking_token_budget reasoning_budget_tokens", -1),
            **each("include_reasoning", True),
        },
        (VLLM, LLAMA),
        "use `reasoning_effort` or `thinking`",
    ),
    Row(
        {
            **each("chat_template role_mapping truncate_prompt_tokens prompt_embeds"),
            **each("add_generation_prompt", True),
            **each("continue_final_message", False),
            **each("documents", []),
            **each("n_keep", 0, -1),
            **each("suffix", ""),
        },
        (OPENAI, VLLM, LLAMA, MLX),
        "a prompt is read as it is, or as the model's own template makes it of the messages",
    ),
    Row(each("add_special_tokens", False), (VLLM,), "the chat template says which there are", on=TALKS),
    Row(each("add_special_tokens", True), (VLLM,), "send token ids", on=ONLY_TEXT),
    Row(
        {
            **each("include_stop_str_in_output reasoning_in_content thinking_forced_open", False),
            **each("skip_special_tokens parse_tool_calls", True),
            **each("reasoning_format", "auto", "deepseek"),
            **each("n_indent", 0),
            **each("chat_format chat_parser"),
        },
        (VLLM, LLAMA),
        "answers are read as the model's family writes them, without stop strings and special tokens",
    ),
    Row(
        {
            **each("return_prompt_text timings_per_token return_tokens return_progress", False),
            **each("request_id"),
            **each("routed_experts_prompt_start", 0),
            **each("stream_interval", 1),
            **each("response_fields", []),
        },
        (VLLM, LLAMA),
        "there is no such part of an answer",
    ),
    Row(
        {
            **each("priority", 0),
            **each("cache_salt kv_transfer_params ec_transfer_params adapters container inference_geo"),
            **each("vllm_xargs", {}),
            **each("lora multimodal_data image_data mcp_servers fallbacks", []),
            **each("fallback_credit_token compaction thread"),
            **each("draft_model", "default_model"),
            **each("speed", "standard"),
            **each("audio prediction web_search_options moderation"),
            **each("modalities", ["text"]),
            **each("verbosity", "medium"),
        },
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "there is no such thing here",
    ),
    *ANTHROPIC_ROWS,
)

INSIDE: Mapping[str, tuple[Row, ...]] = {
    "stream_options": (
        Row(each("include_usage"), (OPENAI, VLLM, LLAMA, MLX), "", BOTH),
        Row(each("include_obfuscation"), (OPENAI,), "", harmless=True),
        Row(each("continuous_usage_stats", False), (VLLM,), "usage comes at the end"),
    ),
    "tools[]": (Row(each("defer_loading", False), (VLLM,), "the model sees all tools"),),
    "tools[].function": (
        # Several agents' SDKs ask for it always, and use the calls whether or not they have to be valid.
        Row(each("strict", False, True), (OPENAI,), FORM),
        Row(each("defer_loading", False), (VLLM,), "the model sees all tools"),
    ),
}
"""The same of objects within a request."""
