"""Parameters that work on no path, or on few, and what to use instead; ``parameter_table`` has them with all others. Pure."""

from __future__ import annotations

from .parameter import (
    ANTHROPIC,
    DASHSCOPE,
    LLAMA,
    LM_STUDIO,
    MLX,
    OLLAMA,
    ONLY_RESPONSES,
    ONLY_TEXT,
    OPENAI,
    SGLANG,
    TALKS,
    VLLM,
    Row,
    each,
)

NO_GRAMMAR = "an answer can be held to a schema, a regular expression or choices, and to no other grammar"

REFUSED_ROWS: tuple[Row, ...] = (
    Row(
        {
            **each("guided_grammar guided_whitespace_pattern structural_tag ebnf"),
            **each("grammar", ""),
            **each("grammar_lazy", False),
            **each("grammar_triggers", []),
        },
        (VLLM, LLAMA, SGLANG),
        NO_GRAMMAR,
    ),
    Row(each("regex"), (SGLANG,), "use `guided_regex`"),
    Row(each("format", ""), (OLLAMA,), "use `response_format`"),
    Row(each("guided_decoding_backend"), (VLLM,), "there is one", harmless=True),
    Row(
        {
            **each("typical_p typ_p tfs_z length_penalty", 1),
            **each("top_n_sigma adaptive_target", -1),
            **each("dry_multiplier mirostat dynatemp_range xtc_probability", 0),
            **each("min_keep", 0, 1),
            **each("samplers logits_processors", []),
            **each("custom_params custom_logit_processor"),
            **each("watermarking use_beam_search early_stopping", False),
        },
        (VLLM, LLAMA, MLX, SGLANG),
        "there is no such way to choose tokens",
    ),
    Row(
        {
            **each("repeat_last_n", 64, -1),
            **each("penalize_nl", False),
            **each("repetition_context_size presence_context_size frequency_context_size", 20),
        },
        (LLAMA, MLX),
        "use `repetition_penalty`; penalties do not forget",
    ),
    Row(each("do_sample", True), (DASHSCOPE,), "use `temperature`: 0 always takes the likeliest token"),
    Row(each("stop_regex", []), (SGLANG,), "use `stop`"),
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
            **each("n_predict num_predict", -1),
            **each("n_cmpl", 1),
            **each("t_max_predict_ms t_max_prompt_ms", 0, -1),
        },
        (LLAMA, OLLAMA),
        "use `max_tokens` and `n`",
    ),
    Row(
        each("num_ctx context_length"),
        (OLLAMA, LM_STUDIO),
        "`serving.context` of the deployment says how long a context may be",
    ),
    Row(
        each("options extra_body extra_headers extra_query", {}),
        (OLLAMA, OPENAI),
        "what is within it belongs at the top level of the request, where each name has a meaning; the OpenAI SDK puts its"
        " `extra_body` there",
    ),
    Row(
        {**each("functions", []), **each("function_call", "none", "auto")},
        (OPENAI,),
        "use `tools` and `tool_choice`",
    ),
    Row(
        {
            **each("thinking_token_budget reasoning_budget_tokens thinking_budget", -1),
            **each("include_reasoning", True),
            **each("enable_reasoning"),
        },
        (VLLM, LLAMA, DASHSCOPE),
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
    Row(each("input_ids"), (SGLANG,), "send token ids as `prompt` of `/v1/completions`"),
    Row(each("raw", False), (OLLAMA,), "use `/v1/completions`"),
    Row(each("preserve_thinking"), (DASHSCOPE,), "use `chat_template_kwargs`"),
    Row(each("add_special_tokens", False), (VLLM,), "the chat template says which there are", on=TALKS),
    Row(each("add_special_tokens", True), (VLLM,), "send token ids", on=ONLY_TEXT),
    Row(
        {
            **each(
                "include_stop_str_in_output reasoning_in_content thinking_forced_open no_stop_trim", False
            ),
            **each("skip_special_tokens parse_tool_calls separate_reasoning stream_reasoning", True),
            **each("result_format", "message"),
            **each("reasoning_format", "auto", "deepseek"),
            **each("n_indent", 0),
            **each("chat_format chat_parser"),
        },
        (VLLM, LLAMA, SGLANG, DASHSCOPE),
        "answers are read as the model's family writes them, without stop strings and special tokens",
    ),
    Row(
        {
            **each("return_prompt_text timings_per_token return_tokens return_progress", False),
            **each("return_hidden_states return_routed_experts return_cached_tokens_details", False),
            **each("return_prompt_token_ids return_meta_info", False),
            **each("request_id rid"),
            **each("routed_experts_prompt_start", 0),
            **each("stream_interval", 1),
            **each("response_fields", []),
        },
        (VLLM, LLAMA, SGLANG),
        "there is no such part of an answer",
    ),
    Row(
        {
            **each("previous_response_id conversation prompt background_options"),
            **each("background", False),
        },
        (OPENAI,),
        "nothing is stored here: send the whole conversation as `input`, and wait for the answer",
        on=ONLY_RESPONSES,
    ),
    Row(
        each("thread"),
        (ANTHROPIC,),
        "no conversation is kept here: send the whole one as `messages`",
        code="thread_unsupported_request",  # with it, `tool_runner` of Anthropic's SDK 2.13.0 goes on without threads
    ),
    Row(
        {
            **each("priority", 0),
            **each("cache_salt kv_transfer_params ec_transfer_params adapters container inference_geo"),
            **each("vllm_xargs", {}),
            **each("access_programs image", {}),
            **each("lora multimodal_data image_data mcp_servers fallbacks", []),
            **each("fallback_credit_token compaction"),
            **each("draft_model", "default_model"),
            **each("speed", "standard"),
            **each("audio prediction web_search_options moderation lora_path task"),
            **each("enable_search enable_code_interpreter", False),
            **each("session_params provider asr_options translation_options", {}),
            **each("models plugins transforms integrations", []),
            **each("route", "fallback"),
            **each("modalities", ["text"]),
            **each("verbosity", "medium"),
        },
        (OPENAI, VLLM, LLAMA, MLX, ANTHROPIC, SGLANG, DASHSCOPE),
        "there is no such thing here",
    ),
)
"""Each with the values that have no effect, which are accepted."""
