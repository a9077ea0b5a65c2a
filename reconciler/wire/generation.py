"""Gateway and rank 0: the internal request, and the typed events that answer it.

Many requests share a connection; frames name theirs by ``request``. Events carry token ids and text,
never OpenAI's JSON. So the gateway can speak several dialects, and can continue an answer on another
group after a failure (``Generate.resume``).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional, Tuple

from .codec import Hello, message, vocabulary
from .form import FREE, Form
from .gateway import AccessLog, HookSecret, LimitsStore, Tls
from .keys import AccessKey
from .launch import MAX_STALL_SECONDS
from .measuring import Measure, Measured
from .question import Question, Texts, Vector
from .sampling import BY_DEFAULT, BY_MODEL, Ending, Repetition, Sampling, SamplingDefaults

# --- gateway to rank 0 -----------------------------------------------------------------------------


REASONING_SWITCHES = ("enable_thinking", "thinking")
"""The reasoning switch in chat templates: first of Qwen, GLM and Gemma, then of DeepSeek, Granite and Kimi."""


@dataclasses.dataclass(frozen=True)
class Replaced:
    """Parts of a conversation that were replaced, because the model or its chat template does not take them."""

    kind: str
    """A name in the table of ``docs/endpoint.md``."""
    count: int


@message("generate")
class Generate:
    """One answer to produce: to ``messages``, or to either ``prompt`` or ``prompt_tokens``.

    The answer to a prompt that is no conversation is sent as it is: nothing in it is reasoning or a tool call.
    """

    request: str
    messages: Tuple[Mapping[str, Any], ...]
    """Messages in the form of chat templates: role, content (text), tool_calls, tool_call_id, name."""
    tools: Tuple[Mapping[str, Any], ...] = ()
    tokens_max: Optional[int] = None
    """None: as many as the context leaves. 0 with a ``question``, at least 0 with ``scores``, and else at least 1."""
    stop: Tuple[str, ...] = ()
    sampling: Sampling = BY_DEFAULT
    resume: Tuple[int, ...] = ()
    """Token ids of this answer that another group has already produced and the gateway has received.

    They count as generated and against ``tokens_max``, and are not reported again. Text that they complete
    only together with later tokens is reported.
    """
    prompt: Optional[str] = None
    """Text to continue, without a template."""
    prompt_tokens: Optional[Tuple[int, ...]] = None
    """The same text as token ids."""
    echo: bool = False
    """Send the prompt's text with ``Accepted``."""
    tool_calls_max: Optional[int] = None
    """Number of tool calls after which the answer ends."""
    template: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further variables of the chat template, such as ``enable_thinking`` and ``reasoning_effort``."""
    ending: Ending = BY_MODEL
    logprobs: Optional[int] = None
    """Number of likeliest tokens to report with each token's log-probability; None: report neither."""
    unset: Tuple[str, ...] = ()
    """Fields of ``sampling`` that neither client nor deployment has set: rank 0 takes them from the model's
    ``generation_config.json``, where that has them."""
    client: str = ""
    """Equal for requests of one client, without other meaning: prompts of different clients are read in turns."""
    max_stall_seconds: float = MAX_STALL_SECONDS
    """The longest time between two tokens of this answer for which a step may read others' prompts."""
    form: Form = FREE
    question: Optional[Question] = None
    """The question about the prompt, where no answer to it is wanted."""
    replaced: Tuple[Replaced, ...] = ()
    """The placeholders that the gateway has put into ``messages``."""
    scores: Optional[int] = None
    """Number of likeliest tokens to report with each log-probability of the prompt's tokens; None: report neither."""
    repetition: Optional[Repetition] = None
    """The repetition that ends the answer, which the gateway takes from the deployment; None: none does."""

    @property
    def computes(self) -> bool:
        """Return whether the group computes anything for it, apart from rank 0's reading of its text."""
        return self.question is None or self.question.texts is not None

    @property
    def texts(self) -> Optional[Texts]:
        return self.question.texts if self.question is not None else None


@message("cancel")
class Cancel:
    """Stop working on a request. Its answer is a ``Finished`` with reason ``cancelled``, or none at all."""

    request: str


RANK_RECEIVES = vocabulary(Hello, Generate, Cancel, Measure)

# --- rank 0 to gateway -----------------------------------------------------------------------------


@message("accepted")
class Accepted:
    """The request fits the context and is queued."""

    request: str
    prompt_tokens: Tuple[int, ...]
    text: str = ""
    """The prompt, where ``Generate.echo`` asks for it."""
    sampling: Optional[Sampling] = None
    """The choice of tokens, where ``Generate.unset`` left a part of it to the model: another group that continues the
    answer uses it too."""
    token_texts: Tuple[str, ...] = ()
    """Each token as the tokenizer shows it, where ``Question.token_texts`` asks for it."""
    replaced: Tuple[Replaced, ...] = ()
    """Empty also from ranks of an earlier version, which refuse such a conversation."""


@message("prefill")
class Prefill:
    """Prompt tokens processed so far."""

    request: str
    done: int
    total: int


@dataclasses.dataclass(frozen=True)
class Likely:
    """A token that could come next."""

    token: int
    text: str
    """The token as the tokenizer shows it, which for a part of a character is not its text."""
    logprob: float
    """In the model's own distribution, before biases, penalties, temperature and all other settings. Finite."""
    bytes: Optional[Tuple[int, ...]] = None
    """The bytes in UTF-8 that it adds to the text; None if there are none, or they are not known."""


@dataclasses.dataclass(frozen=True)
class TokenLogprobs:
    """A token of a prompt or an answer, and the likeliest tokens at its place, the likeliest first."""

    chosen: Likely
    likeliest: Tuple[Likely, ...] = ()


@message("scored")
class Scored:
    """Tokens of the prompt with their log-probabilities, where ``Generate.scores`` asks for them. A group that
    continues an answer may send them again."""

    request: str
    first: int
    """The place of the first of ``tokens`` in the prompt."""
    tokens: Tuple[TokenLogprobs, ...]
    """The first token of a prompt has the log-probability 0 and no likely ones, because nothing is before it."""


@dataclasses.dataclass(frozen=True)
class CallPart:
    """A part of a tool call. The first part of each ``index``, which counts from 0, has its name and id."""

    index: int
    name: str = ""
    id: str = ""
    arguments: str = ""
    """A fragment of JSON text. All fragments make an object, unless the answer ends early or the call is withdrawn."""
    withdrawn: bool = False
    """The call turned out to be none. ``Delta.text`` has its text; its fragments together are no JSON."""


@message("delta")
class Delta:
    """Tokens produced by one step. ``text`` may be empty (an unfinished character, tool markup).

    ``Generate.resume`` takes the tokens of all deltas, one after the other. A token that ends the
    answer is among them only when text that was held back is sent with it, so that an answer continued from
    there does not send that text again.
    """

    request: str
    tokens: Tuple[int, ...]
    text: str = ""
    reasoning: str = ""
    calls: Tuple[CallPart, ...] = ()
    logprobs: Tuple[TokenLogprobs, ...] = ()
    """One for each of ``tokens`` except a token that ends the answer, if ``Generate.logprobs`` asks for them. The end token
    has one too if the prompt is scored, because lm-evaluation-harness takes the last entry for the answer's."""
    vectors: Tuple[Vector, ...] = ()
    """The vectors that a question asks for. There is nothing else then."""


@message("tool_call")
class ToolCall:
    """A complete tool call, as ranks of an earlier version send it; ``arguments`` is JSON text.

    A continued answer may send it again: ``index``, which counts from 0, tells a new one from an old one.
    """

    request: str
    index: int
    name: str
    arguments: str


@dataclasses.dataclass(frozen=True)
class KeptPrefixes:
    """The prefix cache of a group, at the time of an event."""

    bytes: int
    """Size on the rank that needs the most for it."""
    bytes_max: int
    """0 if nothing can be kept, because of the deployment or the model."""
    entries: int
    evictions: int
    """Number of entries that made room for others, since the group was formed."""


@message("finished")
class Finished:
    """The last event of a request. ``reason``: ``stop``, ``length``, ``tool_calls`` or ``cancelled``."""

    request: str
    reason: str
    prompt_tokens: int
    completion_tokens: int
    """Includes the tokens of ``Generate.resume``."""
    cached_tokens: int = 0
    """Tokens of the prompt that were not read, because the prefix cache had them."""
    prefix_cache: Optional[KeptPrefixes] = None
    stop: Optional[str] = None
    """The string of ``Generate.stop`` that ended the answer; None also from ranks of an earlier version."""
    repeated: bool = False
    """The answer ended because it only repeated itself; ``reason`` is ``stop`` then."""


@message("failed")
class Failed:
    """The last event of a request that could not be answered.

    ``code``: ``context_length_exceeded``, ``invalid_request`` (the template or tools do not work out),
    ``overloaded`` (queue full), ``draining`` (this rank is being stopped; ask another) or
    ``internal``.
    """

    request: str
    code: str
    text: str
    parameter: Optional[str] = None


GATEWAY_RECEIVES = vocabulary(Hello, Accepted, Prefill, Scored, Delta, ToolCall, Finished, Failed, Measured)

# --- controller to gateway: the routes file --------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Jump:
    """A jump host, and the only host key that is accepted there."""

    host: str
    port: int
    user: str
    host_key: str


@dataclasses.dataclass(frozen=True)
class Machine:
    """The SSH server of another machine for the gateway, and the only host key that is accepted there."""

    host: str
    port: int
    user: str
    host_key: str
    """Type and key in base64, as in ``known_hosts``."""
    jumps: Tuple[Jump, ...] = ()
    """Jump hosts in order: each leads to the next one and nowhere else."""
    key: str = ""
    """File name of the key that is good for the jump hosts, in addition to the gateway's own."""


def jump_key_name(node: str) -> str:
    """Return the file name of the gateway's key for the jump hosts of a node; every node has its own key."""
    return f"gateway-to-{node}"


@dataclasses.dataclass(frozen=True)
class Backend:
    """Rank 0 of one group that is proven to answer."""

    replica: int
    epoch: int
    socket: str
    node: str
    machine: Optional[Machine] = None
    """None if the socket is on the gateway's own machine."""
    nodes: Tuple[str, ...] = ()
    """The nodes of the group's ranks, in order; empty from an older controller."""


@dataclasses.dataclass(frozen=True)
class Formed:
    """The forming of a group, and how much the end of the replica's group before it points to a request."""

    replica: int
    epoch: int
    suspicion: int
    """``state.Suspicion`` in points: 0 where a machine, a cable or the plan explains the end."""


@dataclasses.dataclass(frozen=True)
class Route:
    """A model that clients may name. Without backends its group is being formed: requests are held."""

    model: str
    aliases: Tuple[str, ...]
    context: int
    """The most tokens of one request; 0 while that is not decided."""
    created: int
    """Seconds since the Unix epoch."""
    backends: Tuple[Backend, ...] = ()
    stall_seconds: float = 0.0
    """A backend that is silent for this long while it works is chosen last; 0: none is."""
    replicas: int = 0
    """Number of groups that should exist; 0 from an older controller."""
    formed: Tuple[Formed, ...] = ()
    """The latest groups of each replica, oldest first."""
    attempt_at: float = 0.0
    """Time of the next attempt to form a group, in seconds since the Unix epoch; 0 if that is not known, or if there is
    a group or one is being formed."""
    batch: int = 0
    """The most requests that one of its groups decodes together: further ones wait at the gateway. 0: unknown."""
    sampling: SamplingDefaults = dataclasses.field(default_factory=SamplingDefaults)
    """The deployment's defaults, for fields that a request does not set."""
    thinking: Optional[bool] = None
    """Reason where a request does not say so; None: as the model's template does."""
    max_stall_seconds: float = MAX_STALL_SECONDS
    """``Generate.max_stall_seconds`` of its requests."""
    embeds: bool = False
    """True if it makes vectors of texts, and generates no text."""
    repetition: Optional[Repetition] = None
    """``Generate.repetition`` of requests that do not set it."""
    refused: str = ""
    """Reason why no group can be formed until a person acts, as in the deployment's conditions; empty where one can."""


@dataclasses.dataclass(frozen=True)
class Routes:
    """The routes file: one JSON object, replaced atomically."""

    version: int
    sequence: int
    listen: str
    """``host:port`` of the Gateway's spec."""
    hold_seconds: float
    """Time for which a request may wait for a group before 503."""
    routes: Tuple[Route, ...] = ()
    token: int = 0
    """Token of the controller that wrote it: routes with a lower token are then ignored."""
    hosts: Tuple[str, ...] = ()
    """Names by which clients may address the endpoint, in addition to those of this machine."""
    auth: str = "none"
    """``GatewayAuth.mode`` of the Gateway's spec."""
    keys: Tuple[AccessKey, ...] = ()
    tls: Optional[Tls] = None
    origins: Tuple[str, ...] = ()
    """Origins whose web pages may use the endpoint; ``*`` for all."""
    nodes: Tuple[str, ...] = ()
    """The nodes whose machines have a gateway, in addition to the controller's own."""
    hook: Optional[HookSecret] = None
    """Place of the webhook's secret, for the controller's own gateway; None where there is no webhook."""
    access_log: Optional[AccessLog] = None
    limits_store: Optional[LimitsStore] = None
    """Without it, each gateway has its share of every limit."""
    gateway: str = ""
    """The node of the gateway that has these routes; empty for the controller's own."""
    keep_alive: str = "event"
    """``keepAlive`` of the Gateway's spec."""
