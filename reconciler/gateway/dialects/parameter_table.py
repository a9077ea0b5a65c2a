"""Every parameter that clients of OpenAI, Anthropic and other model servers may send, and our own.
``docs/endpoint.md`` has the same table. Pure.

The names are from the request models of openai 3.52.0 (``types/chat/completion_create_params.py``,
``types/responses/response_create_params.py``), vLLM (``entrypoints/openai/{chat_completion,completion}/protocol.py``,
with the older ``guided_*``), llama.cpp (``tools/server/server-task.cpp``), mlx-lm 0.32.2 (``server.py``), SGLang
(``srt/entrypoints/openai/protocol.py``), Ollama (``docs/api.md``), the references of LM Studio and of DashScope's
compatible mode, and those of ``anthropic_parameters``.
"""

from __future__ import annotations

from collections.abc import Mapping

from .anthropic_parameters import ANTHROPIC_ROWS
from .parameter import (
    ALL,
    ANTHROPIC,
    BOTH,
    CHAT_OF_OPENAI,
    DASHSCOPE,
    LLAMA,
    LM_STUDIO,
    MLX,
    OF_OPENAI,
    OLLAMA,
    ONLY_CHAT,
    ONLY_RESPONSES,
    ONLY_TEXT,
    OPENAI,
    OWN,
    SGLANG,
    TALKS,
    VLLM,
    WITH_MESSAGES,
    Row,
    each,
)
from .refused_parameters import NO_GRAMMAR, REFUSED_ROWS

ROWS: tuple[Row, ...] = (
    Row(
        each("model"),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "A name or an alias of `/v1/models`. Default: the only deployment.",
        ALL,
    ),
    Row(
        each("input"),
        (OPENAI,),
        "A string, or the items of the conversation.",
        ONLY_RESPONSES,
    ),
    Row(each("instructions", ""), (OPENAI,), "The first system message.", ONLY_RESPONSES),
    Row(each("messages"), (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC), "The conversation.", WITH_MESSAGES),
    Row(
        each("prompt"),
        (OPENAI, VLLM, LLAMA, MLX),
        "A string, token ids, or a list of up to 64 of either.",
        ONLY_TEXT,
        on=ALL - ONLY_RESPONSES,
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
        ALL - ONLY_RESPONSES,
    ),
    Row(each("max_output_tokens"), (OPENAI,), "Default: the rest of the context.", ONLY_RESPONSES),
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
        "A string, or up to 4, each of at most 4096 characters. They are looked for in the content, not in reasoning and calls.",
        OF_OPENAI,
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
        each("repetition_penalty repeat_penalty"),
        (VLLM, MLX, LLAMA, OLLAMA, LM_STUDIO),
        "0.01 to 100, of all tokens of prompt and answer: positive logits are divided by it, others multiplied. 1 and 0 "
        "are off. The first name wins.",
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
        each("repetition_detection"),
        (VLLM,),
        "The answer [ends](#answers-that-repeat-themselves) when its last tokens are one pattern of `min_pattern_size` (1) to "
        "`max_pattern_size` tokens (up to 4096; 0: never), `min_count` times (2 to 1000) in a row. Default: "
        "`serving.stopRepetition` of the deployment.",
        ALL,
    ),
    Row(
        each("logprobs", False),
        (OPENAI, VLLM, LLAMA, MLX),
        "For chat `true`; for completions a number from 0 to 20, with `echo` also of the prompt. See below.",
        BOTH,
    ),
    Row(
        each("top_logprobs", 0),
        (OPENAI, VLLM, LLAMA, MLX),
        "0 to 20; for chat more than 0 needs `logprobs`.",
        CHAT_OF_OPENAI,
    ),
    Row(
        each("stream"),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "Server-sent events, with [signs of life](#signs-of-life-in-a-stream) during pauses.",
        ALL,
    ),
    Row(
        each("stream_options"),
        (OPENAI, VLLM, LLAMA, MLX),
        "`include_usage`; `include_obfuscation` has no effect; `continuous_usage_stats` is refused unless false.",
        OF_OPENAI,
    ),
    Row(
        each("tools", []),
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC),
        "Functions. Calls of those that are `strict` satisfy their schemas; `defer_loading` is refused unless false. Responses "
        "[drop](#responses) others, and so do [messages](#messages-of-anthropic).",
        TALKS,
    ),
    Row(
        each("tool_choice", "none", "auto"),
        (OPENAI, VLLM, LLAMA, ANTHROPIC),
        "`auto`, `none`, `required`, the name of a function, or `allowed_tools`. See below. Messages take an object: `auto`, "
        "`any`, `tool` or `none`, with `disable_parallel_tool_use`.",
        TALKS,
    ),
    Row(
        each("parallel_tool_calls", True, False),
        (OPENAI, VLLM, LLAMA),
        "`false` ends an answer after its first tool call.",
        CHAT_OF_OPENAI,
    ),
    Row(
        each("reasoning_effort", "none"),
        (OPENAI, VLLM, LLAMA),
        "Reaches the chat template. `none` switches reasoning off as `thinking` does.",
        ONLY_CHAT,
        on=OF_OPENAI,
    ),
    Row(
        each("thinking", False, {"type": "disabled"}),
        (VLLM, LLAMA, ANTHROPIC),
        'Reaches the chat template. `false` and `{"type": "disabled"}` switch reasoning off where the template can: as '
        "`enable_thinking` and `thinking`. Default: `serving.thinking` of the deployment, else as the template does. "
        "`budget_tokens` bounds nothing; with `display` `omitted`, messages have empty thinking blocks.",
        WITH_MESSAGES,
    ),
    Row(
        each("enable_thinking think"),
        (DASHSCOPE, OLLAMA),
        "As `thinking`, which wins; `think` may be an effort, as `reasoning_effort`, which wins.",
        ONLY_CHAT,
    ),
    Row(
        each("chat_template_kwargs", {}),
        (VLLM, LLAMA, MLX),
        "Further variables of the chat template; they win over the two above.",
        TALKS,
    ),
    Row(
        each("response_format", {"type": "text"}),
        (OPENAI, VLLM, LLAMA),
        "`text`, `json_object` or `json_schema`, which the content satisfies, whether or not it is `strict`. See below.",
        BOTH,
    ),
    Row(
        each("guided_json guided_regex guided_choice json_schema"),
        (VLLM, LLAMA),
        "A schema, a regular expression or a list of texts, of which the content is one. One form in all.",
        BOTH,
    ),
    Row(
        each("structured_outputs"),
        (VLLM,),
        "`json`, `regex`, `choice` or `json_object`; `grammar`, `structural_tag` and `whitespace_pattern` are refused, "
        "`disable_additional_properties` unless false; `disable_fallback` and `disable_any_whitespace` have no effect.",
        BOTH,
    ),
    Row(
        each("prompt_cache_key session_id"),
        (OPENAI, VLLM),
        "As the header `x-session-affinity`: requests with the same value go to the same group, if it has not much more "
        "to do than another.",
        OF_OPENAI,
    ),
    Row(
        each("reasoning", {}),
        (OPENAI,),
        "`effort` as `reasoning_effort`; with `summary`, or `generate_summary`, reasoning is told as its own summary. `context` "
        "and `mode` are refused unless `auto` and `standard`.",
        ONLY_RESPONSES,
    ),
    Row(
        each("text", {}, {"format": {"type": "text"}}),
        (OPENAI,),
        "`format`: `text`, `json_object` or `json_schema`. `verbosity` has no effect: no template takes it.",
        ONLY_RESPONSES,
    ),
    Row(
        each("include", []),
        (OPENAI,),
        "`message.output_text.logprobs`, `reasoning.encrypted_content`; the others are parts of tools that there are none of.",
        ONLY_RESPONSES,
    ),
    Row(
        each("max_tool_calls"),
        (OPENAI,),
        "Of calls that the endpoint makes itself; it makes none.",
        ONLY_RESPONSES,
    ),
    Row(
        each("truncation", "disabled", "auto"),
        (OPENAI,),
        "`auto` or `disabled`. A prompt that is too long is refused either way.",
        ONLY_RESPONSES,
    ),
    Row(
        each("return_token_ids", False),
        (VLLM,),
        "Adds `prompt_token_ids` and `token_ids` to the answer.",
        ONLY_CHAT,
    ),
    Row(
        each("return_groups", False),
        (OWN,),
        "Says [which group answers](#who-answers), and when none does.",
        ONLY_CHAT,
    ),
    Row(each("echo", False), (OPENAI, VLLM), "The text begins with the prompt.", ONLY_TEXT),
    Row(each("best_of", 1), (OPENAI, VLLM), "Refused unless it is `n`.", ONLY_TEXT),
    Row(
        each("metadata"),
        (OPENAI, ANTHROPIC),
        "Repeated in the answer.",
        ONLY_RESPONSES,
        on=ONLY_RESPONSES,
    ),
    # --- accepted, whatever the value ---
    Row(each("metadata"), (OPENAI, ANTHROPIC), "for the statistics of a provider", harmless=True, on=BOTH),
    Row(
        each(
            "user store service_tier safety_identifier prompt_cache_retention prompt_cache_options cache_control "
            "user_profile_id client_metadata billing_policy diagnostics user_id custom_labels usage"
        ),
        (OPENAI, ANTHROPIC, SGLANG),
        "for the bills, statistics and caches of a provider",
        harmless=True,
    ),
    Row(
        each(
            "cache_prompt n_cache_reuse id_slot num_draft_tokens backend_sampling speculative.type speculative.n_min "
            "speculative.n_max speculative.p_min speculative.ngram_size_n speculative.ngram_size_m "
            "speculative.ngram_m_hits extra_key ngram_corpus_id bootstrap_host bootstrap_port bootstrap_room routed_dp_rank "
            "disagg_prefill_dp_rank data_parallel_rank"
        ),
        (LLAMA, MLX, SGLANG),
        "say how an answer is computed, not which it is",
        harmless=True,
    ),
    Row(
        each("keep_alive ttl"),
        (OLLAMA, LM_STUDIO),
        "say how long a model stays loaded: here as long as its deployment is declared",
        harmless=True,
    ),
    Row(
        each("tool_stream incremental_output"),
        (DASHSCOPE,),
        "streams have the parts of text and calls as they come",
        harmless=True,
    ),
    Row(
        each(
            "spaces_between_special_tokens truncation_side media_io_kwargs mm_processor_kwargs return_token_offsets "
            "return_mm_kwargs xtc_threshold dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers "
            "mirostat_tau mirostat_eta dynatemp_exponent adaptive_decay preserved_tokens n_discard "
            "reasoning_budget_start_tag reasoning_budget_end_tag reasoning_budget_message "
            "reasoning_budget_arm_immediately images_config max_dynamic_patch min_dynamic_patch use_audio_in_video "
            "vl_high_resolution_images routed_experts_start_len search_options"
        ),
        (VLLM, LLAMA, MLX, SGLANG, DASHSCOPE),
        "matter only with others, which are refused",
        harmless=True,
    ),
    *REFUSED_ROWS,
    *ANTHROPIC_ROWS,
)

INSIDE: Mapping[str, tuple[Row, ...]] = {
    "structured_outputs": (
        Row(each("json regex choice json_object"), (VLLM,), "", BOTH),
        Row(each("grammar structural_tag whitespace_pattern"), (VLLM,), NO_GRAMMAR),
        Row(each("disable_additional_properties", False), (VLLM,), "write `additionalProperties`"),
        Row(each("disable_fallback disable_any_whitespace"), (VLLM,), "", harmless=True),
    ),
    "stream_options": (
        Row(each("include_usage"), (OPENAI, VLLM, LLAMA, MLX), "", BOTH),
        Row(each("include_obfuscation"), (OPENAI,), "", harmless=True),
        Row(each("continuous_usage_stats", False), (VLLM,), "usage comes at the end"),
    ),
    "reasoning": (
        Row(each("effort summary generate_summary"), (OPENAI,), "", ONLY_RESPONSES),
        Row(each("context", "auto"), (OPENAI,), "the chat template says which reasoning it renders"),
        Row(each("mode", "standard"), (OPENAI,), "there is no such mode"),
    ),
    "text": (
        Row(each("format"), (OPENAI,), "", ONLY_RESPONSES),
        # Codex and SDKs of agents send it unasked, depending on the model's name.
        Row(each("verbosity"), (OPENAI,), "", harmless=True),
    ),
    "tools[]": (Row(each("defer_loading", False), (VLLM,), "the model sees all tools"),),
    "tools[].function": (
        Row(each("strict", False, True), (OPENAI,), "", BOTH),
        Row(each("defer_loading", False), (VLLM,), "the model sees all tools"),
    ),
}
"""The same for objects within a request."""
