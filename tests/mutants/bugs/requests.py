"""What is done about requests that end other servers, and about clients that go away.

Each entry takes one piece of that away again: the endpoint answers, refuses or stops as it should no longer.
"""

from __future__ import annotations

from ast import (
    Assign,
    Attribute,
    Await,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Constant,
    Delete,
    Expr,
    For,
    If,
    IfExp,
    Raise,
    Return,
    Subscript,
    Tuple,
    UnaryOp,
    keyword,
)

from reconciler.gateway import app, errors, front, state_file
from reconciler.gateway.dialects import content, fields, known_parameters, parameter_table
from reconciler.gateway.dialects.openai import completions, form, messages, parameters, request, shape
from reconciler.gateway.http import answer as http_answer
from reconciler.gateway.http import codings, refusals, request_body
from reconciler.gateway.routing import (
    defaults,
    fairness,
    pool,
    progress,
    run,
    runs,
    suspects,
)
from reconciler.serving import addresses as listening
from reconciler.serving import limiter, listener, protocol, reading
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, catch_nothing, drop, keep, never, put, respell

ADMISSION = ("tests/serving/test_limiter.py",)
READING = ("tests/serving/test_reading.py",)
CONNECTIONS = ("tests/gateway/http/test_connections.py",)
FAIRNESS = ("tests/gateway/routing/test_fairness.py",)
TURNS = ("tests/gateway/routing/test_turns.py",)
CHAT_REQUEST = ("tests/gateway/dialects/openai/test_request.py",)
COMPLETIONS = ("tests/gateway/dialects/openai/test_completions.py",)
CHAT = ("tests/gateway/dialects/openai/test_chat.py",)
BODIES = ("tests/gateway/http/test_request_body.py",)
CORPUS = ("tests/gateway/http/test_corpus.py",)
SILENCES = ("tests/gateway/http/test_silences.py",)
MIDDLEWARE = ("tests/gateway/http/test_middleware.py",)
FAILOVER = ("tests/gateway/routing/test_failover.py",)
PROBES = ("tests/gateway/test_health_and_metrics.py",)
PROGRESS = ("tests/gateway/routing/test_progress.py",)
HOSTILE = ("tests/gateway/http/test_hostile_requests.py",)
DISCONNECTS = ("tests/gateway/http/test_disconnects.py",)
PROMPT = ("tests/runner/requests/test_prompt.py",)
CONVERSATION = ("tests/runner/requests/test_conversation.py",)
SHAPING = ("tests/runner/requests/test_shaping.py",)
CONVERSATIONS = ("tests/runner/requests/test_conversations.py",)
SAMPLING = ("tests/runner/decode/test_sampling.py",)
STEPS = ("tests/runner/decode/test_steps.py",)
ANSWER = ("tests/runner/decode/test_answer.py",)
DEFAULTS = ("tests/gateway/routing/test_defaults.py",)
RANK_SERVER = ("tests/runner/requests/test_server.py",)
TEMPLATES = ("tests/runner/requests/test_templates.py",)

TABLE = ("tests/gateway/dialects/test_parameter_table.py",)
ADJUSTMENT = ("tests/runner/decode/test_adjustment.py",)
SCORES = ("tests/runner/decode/test_scores.py",)
REPETITION = ("tests/runner/decode/test_repetition.py",)
ANSWERS = ("tests/runner/decode/test_answer.py",)
TURN_ENDS = ("tests/runner/model/test_turn_ends.py",)
PARAMETERS = ("tests/runner/decode/test_parameters.py",)

DIALECTS = "reconciler.gateway.dialects.table:DIALECTS"

SUSPECTS = ("tests/gateway/routing/test_suspects.py",)

POISONS = (
    Mutant(
        "explained-deaths-are-charged",
        suspects.Suspects.judge,
        always(If),
        "a pulled cable gets the prompts of those who were there refused",
        SUSPECTS,
    ),
    Mutant(
        "whoever-was-there-is-likely",
        "reconciler.gateway.routing.suspects:_Death.likely",
        keep(BoolOp, "values[1]"),
        "eight streams are tried apart after a prompt that nobody had answered yet",
        SUSPECTS,
    ),
    Mutant(
        "suspects-go-on-together",
        suspects.Suspects.turn,
        never(Compare, 1, 3),
        "it is not known which of several prompts ended the second group",
        SUSPECTS,
    ),
    Mutant(
        "a-trial-has-company",
        suspects.Suspects.turn,
        keep(BoolOp, "values[1]", 0, 2),
        "a suspect is sent beside another request that has no token yet",
        SUSPECTS,
    ),
    Mutant(
        "one-turn-lasts-for-ever",
        suspects.Suspects.turn,
        never(Compare, 0, 3),
        "a request waits for the trials of others without an end",
        SUSPECTS,
    ),
    Mutant(
        "progress-clears-nobody",
        suspects.Suspects.clear,
        never(If),
        "a prompt that came through is refused at the next death",
        SUSPECTS,
    ),
    Mutant(
        "a-quarantine-has-no-end",
        suspects._holds,
        always(Compare),
        "a prompt is allowed at once, or never again",
        SUSPECTS,
    ),
    Mutant(
        "the-gateway-forgets-its-quarantine",
        state_file.read_prompts,
        put(Return, "return ()"),
        "each restart of the gateway costs two groups more",
        FAILOVER,
    ),
    Mutant(
        "a-long-back-off-is-waited-for",
        progress.seek,
        never(BoolOp),
        "while nothing can serve for five minutes, clients wait for one and are told a guess",
        FAILOVER,
    ),
)

NULLS = (
    Mutant(
        "a-null-flag-is-refused",
        fields.Fields.flag,
        put(Compare, "{place.body[1].value.args[0]} not in {place.body[1].value.func.value}"),
        "clients that send null for what they leave out get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-null-number-is-refused",
        fields.Fields.number,
        put(Compare, "{place.body[1].value.args[0]} not in {place.body[1].value.func.value}", 0, 2),
        "clients that send null for what they leave out get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-null-count-is-refused",
        fields.Fields.optional_integer,
        put(Compare, "{place.body[1].value.args[0]} not in {place.body[1].value.func.value}", 0, 4),
        "clients that send null for what they leave out get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-null-text-is-refused",
        fields.Fields.optional_text,
        put(Compare, "{place.body[1].value.args[0]} in {place.body[1].value.func.value}"),
        "clients that send null for what they leave out get 400",
        (*CHAT_REQUEST, *COMPLETIONS),
    ),
    Mutant(
        "a-null-object-is-refused",
        fields.Fields.object,
        put(Compare, "{place.body[1].value.args[0]} not in {place.body[1].value.func.value}"),
        "clients that send null for what they leave out get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-null-list-is-refused",
        fields.Fields.objects,
        put(Compare, "{place.body[1].value.args[0]} not in {place.body[1].value.func.value}"),
        "clients that send null for what they leave out get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-null-stop-is-refused",
        parameters.parse_stop,
        drop(If, 0, 3),
        "clients that send null for what they leave out get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-null-choice-is-refused",
        parameter_table.Row.accepts,
        put(Compare, "False"),
        "clients that send null for what they leave out get 400",
        (*CHAT_REQUEST, *TABLE),
    ),
    Mutant(
        "a-null-content-is-refused",
        content.Contents.texts,
        always(If, 2, 3),
        "a conversation with a tool call in it, whose text is null, gets 400",
        CHAT_REQUEST,
    ),
)

MEANINGS = (
    Mutant(
        "an-int-is-no-number",
        fields.Fields.number,
        put(Tuple, "float"),
        "a temperature of 0 gets 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "an-unknown-choice-is-taken",
        fields.Fields.choice,
        drop(Compare),
        "what cannot be done is ignored in silence",
        CHAT_REQUEST,
    ),
    Mutant(
        "what-is-not-done-yet-is-ignored",
        form._response_format,
        never(If, 2, 6),
        "who asks for JSON gets prose",
        CHAT_REQUEST,
    ),
    Mutant(
        "what-others-know-is-ignored",
        known_parameters.refuse_unsupported,
        never(),
        "who asks for a grammar, or for beam search, gets what a sampler makes of it",
        TABLE,
    ),
    Mutant(
        "strict-tools-are-not",
        known_parameters.refuse_unsupported_inside,
        never(),
        "arguments are not held to the schema that was to be kept to",
        TABLE,
    ),
    Mutant(
        "a-hit-has-no-prompt-to-penalize",
        "reconciler.runner.decode.inbox:Ticket.seen",
        put(IfExp, "set()"),
        "a repetition penalty does not count the prompt",
        PARAMETERS,
    ),
    Mutant(
        "a-continued-answer-starts-to-count",
        "reconciler.runner.decode.inbox:Ticket.seen",
        put(Subscript, "()", 1, 2),
        "after a failure an answer repeats what the penalties kept it from",
        PARAMETERS,
    ),
    Mutant(
        "what-is-said-is-not-counted",
        "reconciler.runner.decode.adjustment:_Changes._count",
        drop(Assign, 6, 7),
        "penalties count what was there when the answer began, and nothing after it",
        (*ADJUSTMENT, *PARAMETERS),
    ),
    Mutant(
        "logprobs-are-of-what-is-left",
        "reconciler.runner.model.agreed_batch:_report",
        put(Call, "{it} * 2", 1, 7),
        "log-probabilities are not those of the model",
        PARAMETERS,
    ),
    Mutant(
        "held-text-comes-after-a-call",
        "reconciler.runner.decode.answer:Answer._place",
        never(If, 1, 3),
        "text that may have been a stop string is shown after the call that it came before",
        ANSWERS,
    ),
    Mutant(
        "a-part-of-a-turn-ends-it",
        "reconciler.runner.model.turn_ends:turn_end",
        never(If, 1, 2),
        "a model that thinks first says nothing after that",
        TURN_ENDS,
    ),
    Mutant(
        "ends-of-the-base-model-alone-count",
        "reconciler.runner.model.adapter:Tokenizer._turn_ends",
        put(IfExp, "()"),
        "an answer goes on with a turn of the user",
        TURN_ENDS,
    ),
    Mutant(
        "tokens-are-scored-by-those-before",
        "reconciler.runner.model.generator:Generator._read_part",
        put(Subscript, "prompt.left[:count]", 1, 4),
        "a quantization looks as good or as bad as chance has it",
        SCORES,
    ),
    Mutant(
        "what-is-kept-is-not-scored",
        "reconciler.runner.decode.reuse:Reuse.begin",
        keep(IfExp, "orelse"),
        "a prompt that was asked before is scored in part, or with the figures of other tokens",
        SCORES,
    ),
    Mutant(
        "an-end-of-an-answer-has-no-entry",
        "reconciler.runner.decode.answer:Answer.take",
        never(If, 1, 5),
        "a harness drops the last token of a text, and compares models by what is left",
        SCORES,
    ),
    Mutant(
        "a-repetition-is-once-more",
        "reconciler.runner.decode.answer:RepetitionScanner.repeats",
        keep(BinOp, "left", 5, 6),
        "an answer that repeats itself goes on for another round, or to its last token",
        REPETITION,
    ),
    Mutant(
        "a-repetition-ends-nothing",
        "reconciler.runner.decode.answer:Answer.take",
        never(If, 4, 5),
        "a loop goes on to the last token",
        ("tests/runner/decode/test_answer.py",),
    ),
    Mutant(
        "developers-are-no-system",
        messages._message,
        keep(IfExp, "test.left"),
        "templates raise for, or drop, what a developer message says",
        CHAT_REQUEST,
    ),
    Mutant(
        "developers-are-refused",
        "reconciler.gateway.dialects.openai.messages:_ROLES",
        drop(Constant, 1, 6),
        "coding agents, which begin with developer messages, get 400",
        CHAT_REQUEST,
    ),
    Mutant(
        "late-system-messages-stay",
        "reconciler.runner.requests.shaping:_Stage.systems",
        never(If, 0, 4),
        "a system message in the middle makes the template raise",
        CONVERSATION,
    ),
    Mutant(
        "all-templates-take-all",
        "reconciler.runner.requests.traits:_Asking.refusal",
        always(),
        "a template that drops system messages in silence drops them",
        CONVERSATION,
    ),
    Mutant(
        "the-older-bound-wins",
        request._tokens_max,
        put(IfExp, "{it.test.left} if {it.body} is None else {it.body}"),
        "max_completion_tokens does nothing beside max_tokens",
        CHAT_REQUEST,
    ),
    Mutant(
        "the-newer-bound-is-not-read",
        request._tokens_max,
        put(Call, "None", 0, 2),
        "max_completion_tokens does nothing",
        CHAT_REQUEST,
    ),
    Mutant(
        "an-answer-ends-early",
        "reconciler.runner.requests.prompt:_tokens_left",
        put(IfExp, "min({it.test.left} or 16, {it.body})", 1, 2),
        "who gives no bound gets a sixteenth of an answer",
        (*PROMPT, *HOSTILE),
    ),
    Mutant(
        "an-answer-outgrows-the-context",
        "reconciler.runner.requests.prompt:_tokens_left",
        keep(Call, "args[0]", 3, 5),
        "an answer goes on beyond the context, and beyond the memory that was counted",
        PROMPT,
    ),
    Mutant(
        "images-are-dropped",
        content.Contents.part,
        never(If, 3, 4),
        "a model that cannot see answers as if it had seen",
        CHAT_REQUEST,
    ),
    Mutant(
        "arguments-must-be-json",
        messages.arguments_of,
        put(Return, "raise {using}('no JSON', 'messages')", 0, 4, using=errors.invalid),
        "a model that once wrote a broken tool call ends its conversation",
        CHAT_REQUEST,
    ),
    Mutant(
        "results-need-no-call",
        "reconciler.runner.requests.shaping:_Stage.results",
        always(If, 0, 3),
        "templates raise for a result of a call that nobody made",
        SHAPING,
    ),
    Mutant(
        "tools-are-rendered-unasked",
        request.parse_chat,
        keep(IfExp, "body", 0, 2),
        "a model calls tools although it must not",
        CHAT_REQUEST,
    ),
)

LETHAL = (
    Mutant(
        "any-bytes-are-json",
        parameters.parse_object,
        catch_nothing(),
        "a body that is no JSON is a 500",
        CHAT_REQUEST,
    ),
    Mutant(
        "any-json-is-an-object",
        parameters.parse_object,
        never(),
        "a body that is a list is a 500",
        CHAT_REQUEST,
    ),
    Mutant(
        "bodies-have-no-end",
        request_body._read,
        never(If, 1, 4),
        "one client fills the memory of the gateway",
        BODIES,
    ),
    Mutant(
        "a-large-body-is-read-first",
        request_body.read_body,
        never(If, 0, 3),
        "gigabytes that are announced are received before they are refused",
        BODIES,
    ),
    Mutant(
        "a-body-may-take-for-ever",
        request_body.read_body,
        put(Call, "asyncio.timeout(None)", 9, 14),
        "clients that never send their body hold connections for ever",
        BODIES,
    ),
    Mutant(
        "nesting-reaches-the-template",
        fields.too_deep,
        put(Call, "range(10 ** 9)", 0, 2),
        "a schema nested a thousand levels ends the rank's thread by its stack",
        CHAT_REQUEST,
    ),
    Mutant(
        "an-empty-prompt-is-sent",
        completions._prompt,
        keep(BoolOp, "values[1]", 0, 3),
        "an empty prompt, with which mlx_lm.server dies, gets as far as the rank",
        COMPLETIONS,
    ),
    Mutant(
        "an-empty-prompt-is-read",
        "reconciler.runner.requests.prompt:read_prompt",
        never(If, 0, 5),
        "a prompt without a token ends the loop of all requests",
        PROMPT,
    ),
    Mutant(
        "sampling-changes-in-the-middle",
        defaults.settled,
        always(),
        "an answer that goes on elsewhere goes on with other sampling",
        (*DEFAULTS, *FAILOVER),
    ),
    Mutant(
        "a-wish-to-reason-is-overruled",
        defaults._template,
        keep(BoolOp, "values[0]"),
        "a client that asks for reasoning gets none, because its deployment says so for others",
        DEFAULTS,
    ),
    Mutant(
        "one-prompt-is-all",
        completions.parse_completion,
        put(Call, "{it}[:1]", 16, 23),
        "of a list of prompts all but the first are not answered",
        COMPLETIONS,
    ),
    Mutant(
        "unknown-tokens-are-read",
        "reconciler.runner.requests.prompt:read_prompt",
        never(If, 1, 5),
        "a token id beyond the vocabulary reads memory that is not the model's",
        PROMPT,
    ),
    Mutant(
        "unknown-tokens-are-biased",
        "reconciler.runner.requests.prompt:_check_biases",
        never(If, 0, 2),
        "a bias of a token that is not there ends the process",
        PROMPT,
    ),
    Mutant(
        "a-bias-may-be-anything",
        parameters._biases,
        never(If, 2, 3),
        "a bias by a word is a 500",
        CHAT_REQUEST,
    ),
    Mutant(
        "stops-may-be-anything",
        parameters.parse_stop,
        never(UnaryOp, 1, 2),
        "a stop that is a number ends the loop of all requests",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-rank-takes-any-stop",
        "reconciler.runner.requests.prompt:_check_stop",
        never(UnaryOp),
        "a stop string without an end or a beginning gets into the loop of all requests",
        (*PROMPT, *CONVERSATIONS),
    ),
    Mutant(
        "more-tokens-than-there-are-stay",
        "reconciler.runner.decode.sampling:keep_likely",
        put(Compare, "0 < {it.comparators[0]}", 2, 5),
        "a top_k above the vocabulary ends the loop of all requests",
        (*SAMPLING, *HOSTILE),
    ),
    Mutant(
        "a-temperature-may-be-tiny",
        "reconciler.runner.decode.sampling:GREEDY_BELOW",
        put(Constant, "1e-320"),
        "a temperature of 1e-300 divides by what is nothing to a float",
        SAMPLING,
    ),
    Mutant(
        "numbers-have-no-bounds",
        fields.Fields.number,
        drop(UnaryOp, 1, 2),
        "a temperature of -1 gets into the loop of all requests",
        CHAT_REQUEST,
    ),
    Mutant(
        "counts-have-no-bounds",
        fields.Fields.optional_integer,
        drop(UnaryOp, 1, 3),
        "no tokens at all, or a million answers, are asked for",
        CHAT_REQUEST,
    ),
    Mutant(
        "a-seed-is-not-folded",
        parameters.several,
        keep(BinOp, "left", 0, 2),
        "a negative seed, or n answers to the highest one, are no seed that ranks take",
        CHAT_REQUEST,
    ),
    Mutant(
        "half-a-character-is-a-crash",
        shape.dumps,
        catch_nothing(),
        "half of a surrogate pair in an answer or a name is a 500",
        CHAT,
    ),
    Mutant(
        "a-template-s-error-ends-the-reader",
        "reconciler.runner.requests.prompt:_tokens",
        catch_nothing(1, 2),
        "what a template raises about a conversation is not told as its refusal",
        (*TEMPLATES, *CONVERSATIONS),
    ),
    Mutant(
        "what-cannot-be-read-cuts-others",
        "reconciler.runner.requests.server:_accept",
        keep(IfExp, "body", 0, 5),
        "a request that no rank can read drops a connection with all that is on it",
        RANK_SERVER,
    ),
    Mutant(
        "a-wrong-frame-ends-the-connection",
        "reconciler.runner.requests.server:Server._on_frame",
        keep(If, "body[0]", 0, 5),
        "one request that does not fit the wire ends all that share its connection",
        CONVERSATIONS,
    ),
    Mutant(
        "an-unreadable-answer-ends-all",
        "reconciler.runner.decode.leader:Leader._read_token",
        catch_nothing(),
        "what a tokenizer raises about one answer ends the group",
        STEPS,
    ),
    Mutant(
        "markup-that-is-no-call-ends-all",
        "reconciler.runner.markup.answer:read_calls",
        catch_nothing(),
        "a model that writes a broken tool call gets no answer out",
        ANSWER,
    ),
    Mutant(
        "a-slow-reader-fills-memory",
        "reconciler.runner.requests.server:_Connection.send",
        never(If, 1, 2),
        "a gateway that hangs keeps rank 0 at work for nobody",
        CONVERSATIONS,
    ),
    Mutant(
        "the-queue-has-no-end",
        "reconciler.runner.decode.inbox:Inbox.open",
        never(If, 1, 2),
        "a rank takes more than it will ever answer",
        CONVERSATIONS,
    ),
    Mutant(
        "any-model-is-the-one",
        run.Run._route,
        put(Raise, "raise {using}('no group is there')", 0, 2, using=errors.overloaded),
        "a model that does not exist is asked for again and again",
        CHAT,
    ),
    Mutant(
        "a-request-that-kills-goes-on",
        progress._lost,
        never(),
        "a request that ends every group that takes it ends them all",
        PROGRESS,
    ),
    Mutant(
        "held-requests-have-no-end",
        pool.Pool.hold,
        never(),
        "while a group is formed requests pile up without end",
        FAILOVER,
    ),
)

OVERFLOW = (
    Mutant(
        "too-many-tokens-wait-for-a-group",
        run.Run._route,
        never(If, 1, 2),
        "what can never be answered is held until a group is there",
        COMPLETIONS,
    ),
    Mutant(
        "too-much-text-is-tokenized",
        "reconciler.runner.requests.prompt:check_length",
        never(If, 4, 5),
        "a body of many megabytes holds up all other prompts for seconds",
        PROMPT,
    ),
    Mutant(
        "too-long-a-text-is-read-whole",
        "reconciler.runner.requests.prompt:_encoded",
        never(If, 0, 2),
        "a text a thousand times too long is tokenized to its end",
        PROMPT,
    ),
    Mutant(
        "the-context-has-no-end",
        "reconciler.runner.requests.prompt:read_prompt",
        never(If, 2, 5),
        "a prompt beyond the context is read, and uses memory that was not counted",
        PROMPT,
    ),
    Mutant(
        "unread-text-has-no-end",
        "reconciler.runner.requests.server:Server._open",
        keep(IfExp, "orelse", 1, 2),
        "texts that wait to be tokenized fill the memory of rank 0",
        RANK_SERVER,
    ),
)

GONE = (
    Mutant(
        "nobody-notices-who-left",
        reading.Reading.gone,
        drop(Expr, 1, 2),
        "an answer that nobody waits for is generated to its end",
        FAILOVER,
    ),
    Mutant(
        "who-left-is-not-cancelled",
        run.Run.__exit__,
        put(keyword, "False"),
        "an answer that nobody waits for is generated to its end",
        FAILOVER,
    ),
    Mutant(
        "a-held-client-that-left-is-held",
        runs.Runs.next,
        never(If, 0, 6),
        "who left while its model was loading takes the place of one who waits",
        FAILOVER,
    ),
    Mutant(
        "a-client-may-leave-while-sending",
        request_body._read,
        never(If, 1, 4),
        "a client that goes in the middle of its body is waited for",
        FAILOVER,
    ),
    Mutant(
        "a-queued-request-stays",
        "reconciler.runner.decode.leader:Leader._drop",
        drop(Expr, 2, 4),
        "what was cancelled while it was queued is answered to its end",
        CONVERSATIONS,
    ),
    Mutant(
        "a-running-request-stays",
        "reconciler.runner.decode.leader:Leader._drop",
        drop(Expr, 1, 4),
        "rows that nobody reads stay in the batch until their last token",
        (*CONVERSATIONS, *DISCONNECTS),
    ),
    Mutant(
        "a-prompt-in-the-reader-stays",
        "reconciler.runner.requests.server:_Connection.cancel",
        drop(Delete),
        "what was cancelled while it was tokenized is answered to its end",
        CONVERSATIONS,
    ),
    Mutant(
        "a-lost-connection-s-requests-stay",
        "reconciler.runner.requests.server:Server._serve",
        keep(For, "iter"),
        "after a gateway's crash its ranks go on with what nobody reads",
        CONVERSATIONS,
    ),
    Mutant(
        "a-held-stream-says-nothing",
        http_answer.send_stream,
        never(If, 0, 2),
        "clients and proxies give up in a long prefill, and a dead client is not noticed",
        SILENCES,
    ),
    Mutant(
        "a-stream-has-no-head-while-held",
        http_answer.send_stream,
        put(Await, "await {it.value.func}(3600.0)", 0, 6),
        "clients wait for the first byte of a long prefill until they give up",
        (*DISCONNECTS, *SILENCES),
    ),
    Mutant(
        "a-broken-stream-looks-finished",
        http_answer.send_stream,
        put(Call, "b'data: [DONE]\\n\\n'", 17, 18),
        "half an answer is taken for a whole one",
        FAILOVER,
    ),
)

PATHS = (
    Mutant(
        "there-are-no-completions",
        DIALECTS,
        drop(Call, 4, 19),
        "autocomplete plug-ins find no endpoint",
        COMPLETIONS,
    ),
    Mutant(
        "a-model-cannot-be-asked-about",
        DIALECTS,
        drop(Call, 2, 19),
        "SDKs' models.retrieve fails",
        COMPLETIONS,
    ),
    Mutant(
        "names-have-no-slashes",
        DIALECTS,
        respell("models/{name:path", "models/{name"),
        "models that are named like their repositories are not found",
        COMPLETIONS,
    ),
    Mutant(
        "there-is-no-health",
        app._probes,
        drop(Expr, 1, 6),
        "load balancers take the endpoint for dead",
        PROBES,
    ),
    Mutant(
        "there-is-no-ready",
        app._probes,
        drop(Expr, 4, 6),
        "nothing tells a script when to begin",
        PROBES,
    ),
    Mutant(
        "ready-without-a-group",
        app.Probes.ready,
        never(If, 1, 2),
        "clients are sent to an endpoint that can answer nothing",
        PROBES,
    ),
    Mutant(
        "there-are-no-metrics",
        app._probes,
        drop(Expr, 5, 6),
        "nobody sees load and latency",
        PROBES,
    ),
    Mutant(
        "clients-make-up-labels",
        front.Front._count,
        keep(IfExp, "test.left", 0, 2),
        "a scanner of paths fills the memory of gateway and Prometheus",
        PROBES,
    ),
    Mutant(
        "a-wrong-path-is-plain-text",
        front.Front._pass,
        drop(Assign, 9, 11),
        "a mistyped path is plain text, at which SDKs fail",
        MIDDLEWARE,
    ),
    Mutant(
        "a-defect-is-plain-text",
        front.Front._answer,
        never(If, 3, 4),
        "a defect of the gateway has no error object and no id to look for in the log",
        MIDDLEWARE,
    ),
    Mutant(
        "what-is-no-http-is-plain-text",
        listener.Listener.__init__,
        put(keyword, "'httptools'", 0, 10),
        "bytes that are no request are answered in a shape that nobody parses",
        HOSTILE,
    ),
    Mutant(
        "pages-of-other-sites-may-ask",
        refusals.ForeignPages.refusal,
        never(If, 1, 3),
        "any web page that somebody visits may use the models",
        MIDDLEWARE,
    ),
    Mutant(
        "a-strange-request-id-is-kept",
        front.Front._id_headers,
        put(IfExp, "{it.test.args[0]} or {it.orelse}"),
        "clients write into logs and headers what they like",
        MIDDLEWARE,
    ),
)

FRONT = (
    Mutant(
        "half-heads-stay",
        limiter.ConnectionLimiter._oldest_without_request,
        drop(Attribute, 0, 4),
        "who opens connections and sends nothing keeps everybody else out",
        (*ADMISSION, *CONNECTIONS),
    ),
    Mutant(
        "a-request-makes-room",
        limiter.ConnectionLimiter.move,
        never(If, 0, 2),
        "a connection that is being answered counts as one without a request",
        ADMISSION,
    ),
    Mutant(
        "one-address-has-all",
        limiter.ConnectionLimiter.admit,
        never(If, 0, 3),
        "one machine takes every connection",
        ADMISSION,
    ),
    Mutant(
        "a-closed-connection-is-counted",
        protocol.Protocol.connection_lost,
        drop(Expr, 0, 4),
        "after as many connections as there may be, there are none any more",
        CONNECTIONS,
    ),
    Mutant(
        "a-head-has-no-end",
        protocol.Protocol.data_received,
        never(If, 2, 3),
        "a header of 86 MB is kept in memory",
        CONNECTIONS,
    ),
    Mutant(
        "a-whole-head-may-be-large",
        protocol.Protocol.on_headers_complete,
        never(If, 0, 2),
        "heads that come in one piece have no bound",
        CONNECTIONS,
    ),
    Mutant(
        "a-body-is-a-head",
        protocol.Protocol.on_body,
        drop(Assign),
        "prompts of more than 64 KiB are refused",
        CONNECTIONS,
    ),
    Mutant(
        "nobody-looks-whether-it-is-read",
        protocol.Protocol.pause_writing,
        never(),
        "streams that nobody reads keep their places for ever",
        CONNECTIONS,
    ),
    Mutant(
        "slow-readers-are-cut",
        reading.Reading._look,
        never(If, 0, 2),
        "a client behind a slow line loses its answer after a minute",
        READING,
    ),
    Mutant(
        "an-offer-takes-the-body",
        protocol.Protocol.on_headers_complete,
        never(If, 1, 2),
        "no client of Java's HttpClient can send a request",
        CORPUS,
    ),
    Mutant(
        "trailers-are-headers",
        protocol.Protocol.on_header,
        never(If, 0, 5),
        "who asks, and by which name, can be changed behind the checks",
        CORPUS,
    ),
    Mutant(
        "what-cannot-be-read-is-asked",
        front.Front._pass,
        keep(IfExp, "orelse"),
        "a body whose transfer coding is not understood gets as far as the model",
        CORPUS,
    ),
    Mutant(
        "a-bomb-goes-off",
        codings.decoded,
        never(If, 1, 3),
        "a few kilobytes fill the memory of the gateway",
        CORPUS,
    ),
    Mutant(
        "what-is-cut-off-is-whole",
        codings._parts,
        never(If, 2, 3),
        "half a body is answered",
        CORPUS,
    ),
    Mutant(
        "any-host-will-do",
        refusals.ForeignPages.refusal,
        never(If, 2, 3),
        "a page whose owner points its name at this machine reads the models' names and metrics",
        MIDDLEWARE,
    ),
    Mutant(
        "a-local-suffix-is-enough",
        listening.is_local,
        respell(".localhost", "localhost"),
        "a page of evil-localhost may use the models",
        MIDDLEWARE,
    ),
    Mutant(
        "a-full-batch-takes-more",
        fairness.Turns._may_go,
        always(If, 0, 3),
        "a group queues in the order of arrival, and one client's forty are before another's one",
        (*FAIRNESS, *TURNS),
    ),
    Mutant(
        "short-ones-wait",
        fairness.Turns._gives_way,
        never(If, 1, 2),
        "four tokens wait for two thousand",
        (*FAIRNESS, *TURNS),
    ),
    Mutant(
        "short-ones-take-all",
        fairness.Turns._short_may_go_first,
        put(Compare, "True"),
        "long answers stand still while short ones come",
        FAIRNESS,
    ),
    Mutant(
        "who-has-just-begun-gives-way",
        fairness.Turn.may_give_way,
        put(BoolOp, "True", 1, 3),
        "answers are read again and again, and none goes on",
        FAIRNESS,
    ),
    Mutant(
        "an-unread-end-keeps-its-place",
        run.Run._note,
        never(If, 3, 4),
        "answers that were finished and never read fill the batch",
        CONNECTIONS,
    ),
)

REQUESTS = (*POISONS, *NULLS, *MEANINGS, *LETHAL, *OVERFLOW, *GONE, *PATHS, *FRONT)
