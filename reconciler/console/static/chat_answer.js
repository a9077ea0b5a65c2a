// An answer as it comes: the console's stream, and the state of the answer after each part.
"use strict";

// Yield the JSON of each event of a stream of server-sent events.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") yield {end: true};
      else if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}

// The state of an answer. Times are in milliseconds of one clock that only grows.
class Answer {
  constructor(began) {
    this.began = began;
    this.text = "";
    this.thinking = "";
    this.calls = [];
    this.groups = [];
    this.pauses = [];
    this.waits = null;     // {reason, since} while no group works on it
    this.reading = null;   // {done, total} tokens of the prompt, until the first token of the answer
    this.first = null;     // when its first token came
    this.last = null;
    this.thoughtUntil = null;
    this.parts = 0;        // nearly always one for each token
    this.usage = null;
    this.finish = "";      // stop, length, tool_calls; "stopped" by the person; "error"
    this.error = "";
  }

  take(event, now) {
    if (event.error) this.fail(event.error.message, now);
    if (event.waiting) this.waits = {reason: event.waiting.for, since: this.waits ? this.waits.since : now};
    if (event.reading) this.reading = event.reading;
    if (event.group) this.join(event.group, now);
    if (event.usage) this.usage = event.usage;
    for (const choice of event.choices || []) {
      this.grow(choice.delta || {}, now);
      if (choice.finish_reason) this.finish = choice.finish_reason;
    }
  }

  join(group, now) {
    const before = this.groups.at(-1);
    this.reading = null;
    this.rest(now);
    const other = before && (before.replica !== group.replica || before.epoch !== group.epoch);
    if (!before || other) this.groups.push(group);
    if (other && this.text) this.text += SEAM;
  }

  // End a wait. If it interrupted an answer, it counts as a pause.
  rest(now) {
    if (this.waits && this.first !== null) this.pauses.push({milliseconds: now - this.waits.since, reason: this.waits.reason});
    this.waits = null;
  }

  grow(delta, now) {
    const thinking = delta.reasoning_content || "";
    const text = (delta.content || "").replaceAll(SEAM, "");
    if (!thinking && !text && !delta.tool_calls) return;
    if (this.waits) this.rest(now);
    this.first ??= now;
    this.last = now;
    this.parts += 1;
    this.thinking += thinking;
    this.text += text;
    if (thinking) this.thoughtUntil = now;
    for (const part of delta.tool_calls || []) {
      this.calls[part.index] ??= {id: part.id, name: part.function.name, arguments: ""};
      this.calls[part.index].arguments += part.function.arguments || "";
    }
  }

  fail(message, now) {
    this.rest(now);
    this.finish = "error";
    this.error = message;
  }

  stop(now) {
    this.rest(now);
    this.finish = "stopped";
  }

  get tokens() { return this.usage ? this.usage.completion_tokens : this.parts; }

  // Tokens a second from the first one on, without the pauses; 0 if it is too early to say.
  get rate() {
    const paused = this.pauses.reduce((sum, pause) => sum + pause.milliseconds, 0);
    const seconds = (this.last - this.first - paused) / 1000;
    return this.first === null || this.tokens < 2 || seconds < 0.05 ? 0 : (this.tokens - 1) / seconds;
  }

  // The message for the next request.
  message() {
    const message = {role: "assistant", content: this.text.replaceAll(SEAM, "")};
    if (this.thinking) message.reasoning_content = this.thinking;
    if (this.finish === "tool_calls") {
      message.tool_calls = this.calls.filter(Boolean).map((call) => ({
        id: call.id, type: "function", function: {name: call.name, arguments: call.arguments},
      }));
    }
    return message;
  }

  facts() {
    const {text, thinking, calls, groups, pauses, usage, finish, error} = this;
    const thought = this.thoughtUntil === null ? 0 : this.thoughtUntil - this.first;
    return {text, thinking, calls, groups, pauses, usage, finish, error, tokens: this.tokens, rate: this.rate,
      firstAfter: this.first === null ? null : this.first - this.began, thought};
  }
}
