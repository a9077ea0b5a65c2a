// Messages of a conversation as elements.
"use strict";

function seconds(milliseconds) {
  if (milliseconds < 100) return `${Math.round(milliseconds)} ms`;
  return `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0)} s`;
}

// Names in short form: studio-1..4 for four in a row.
function nodesText(nodes) {
  const found = nodes.map((node) => /^(.*?)(\d+)$/.exec(node));
  const inRow = nodes.length > 2 && found.every((each, index) =>
    each && each[1] === found[0][1] && Number(each[2]) === Number(found[0][2]) + index);
  return inRow ? `${nodes[0]}..${found.at(-1)[2]}` : nodes.join(", ");
}

const groupText = (group) => `epoch ${group.epoch} on ${nodesText(group.nodes)}`;

const WAITS = {group: "the group is being formed again", turn: "others go first"};
const PAUSED = {group: "the group was lost and formed again", turn: "others went first"};
const FIRST_WAITS = {group: "no group serves it now; one is being formed", turn: "in the queue: others go first"};

function readingText(reading) {
  if (!reading) return "Reading the prompt";
  return `Reading the prompt: ${reading.done.toLocaleString()} of ${reading.total.toLocaleString()} tokens`;
}

function messageElement(by, className) {
  return element("article", `chat-message ${className}`, element("h2", "chat-by", by));
}

function personMessage(text) {
  const made = messageElement("You", "chat-person");
  made.append(element("div", "chat-plain", text));
  return made;
}

function resultMessage(text) {
  const made = messageElement("Result of a tool", "chat-person chat-result");
  made.append(element("pre", "", text));
  return made;
}

// The element of an answer. Call ``show`` with its facts whenever they have changed, and ``wait`` while it waits.
class AnswerView {
  constructor(model) {
    this.element = messageElement(model, "chat-model");
    this.thinking = element("details", "chat-thinking", element("summary", ""), element("div", "chat-text"));
    this.text = element("div", "chat-text chat-answer");
    this.calls = element("div", "chat-calls");
    this.pause = element("p", "chat-pause");
    this.pauseWords = element("span", "");
    this.pauseTime = element("span", "chat-pause-time");
    this.pauseTime.setAttribute("aria-hidden", "true");
    this.pause.append(element("span", "chat-pause-sign"), this.pauseWords, this.pauseTime);
    this.facts = element("footer", "chat-facts");
    this.element.append(this.thinking, this.text, this.calls, this.pause, this.facts);
    for (const each of [this.thinking, this.calls, this.pause]) each.hidden = true;
  }

  show(facts) {
    const open = facts.finish === "";
    this.element.setAttribute("aria-busy", String(open));
    this.element.classList.toggle("open", open);
    this.thinking.hidden = !facts.thinking;
    if (facts.thinking) {
      const thinks = open && !facts.text && !facts.calls.length;
      this.thinking.firstElementChild.textContent = thinks ? "Thinking …" : `Thought for ${seconds(facts.thought)}`;
      showText(this.thinking.lastElementChild, facts.thinking, null);
    }
    const continued = facts.groups.at(-1);
    const pause = facts.pauses.at(-1);
    showText(this.text, facts.text, continued && {
      short: pause ? `paused ${seconds(pause.milliseconds)}` : "continued",
      long: `From here by ${groupText(continued)}`,
    });
    this.showCalls(facts.calls);
    this.facts.replaceChildren(open && facts.rate ? element("p", "", `${facts.tokens} tokens · ${facts.rate.toFixed(1)} tokens/s`) : "");
  }

  showCalls(calls) {
    this.calls.hidden = !calls.length;
    calls.forEach((call, index) => {
      this.calls.children[index] || this.calls.append(element("div", "chat-call", element("p", "", "Calls ", element("code", "", call.name)), element("pre")));
      this.calls.children[index].lastElementChild.textContent = pretty(call.arguments);
    });
  }

  // Show the reason and the time of a wait; nothing if ``words`` is empty. ``quietly``: nothing is wrong.
  wait(words, milliseconds, quietly = false) {
    this.pause.hidden = !words;
    this.pause.classList.toggle("quiet", quietly);
    if (this.pauseWords.textContent !== words) this.pauseWords.textContent = words;
    this.pauseTime.textContent = milliseconds === null ? "" : seconds(milliseconds);
  }

  // Show the facts of the answer, once it is over.
  end(facts) {
    this.show(facts);
    this.wait("", null);
    const lines = [];
    if (facts.error) lines.push(element("p", "chat-problem", facts.error));
    for (const [index, pause] of facts.pauses.entries()) {
      const next = facts.groups[index + 1];
      const by = next ? ` Continued by ${groupText(next)}.` : "";
      lines.push(element("p", "chat-paused", `Paused for ${seconds(pause.milliseconds)}: ${PAUSED[pause.reason]}.${by}`));
    }
    const told = [];
    if (facts.groups.length) told.push(`Answered by ${groupText(facts.groups[0])}`);
    if (facts.firstAfter !== null) told.push(`first token after ${seconds(facts.firstAfter)}`);
    if (facts.rate) told.push(`${facts.rate.toFixed(1)} tokens/s`);
    if (facts.tokens) told.push(`${facts.usage ? "" : "about "}${facts.tokens} tokens`);
    const cached = facts.usage && facts.usage.prompt_tokens_details ? facts.usage.prompt_tokens_details.cached_tokens : 0;
    if (facts.usage) told.push(`prompt of ${facts.usage.prompt_tokens}${cached ? `, ${cached} cached` : ""}`);
    if (facts.finish === "length") told.push("ended at the maximum of tokens");
    if (facts.finish === "stopped") told.push("stopped");
    const line = element("ul", "chat-told", ...told.map((each) => element("li", "", each)));
    if (facts.text) line.append(element("li", "chat-act", copyButton("Copy the answer", () => facts.text.replaceAll(SEAM, ""))));
    this.facts.replaceChildren(...lines, line);
  }
}

// The form below calls of tools: their results become part of the conversation. ``send`` gets a message for each.
function resultsForm(calls, send) {
  const fields = calls.map((call) => {
    const field = element("textarea");
    field.rows = 2;
    field.required = true;
    field.dataset.call = call.id;
    return field;
  });
  const labels = calls.map((call, index) => element("label", "", element("span", "", "Result of ", element("code", "", call.name)), fields[index]));
  const button = element("button", "chat-main", calls.length > 1 ? "Send the results" : "Send the result");
  const form = element("form", "chat-results", ...labels, button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(fields.map((field) => ({role: "tool", tool_call_id: field.dataset.call, content: field.value})));
  });
  return form;
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
