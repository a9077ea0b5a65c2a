// The chat: sends the conversation to the console, shows the answer as it comes, and keeps both while this tab is open.
"use strict";

class Chat {
  constructor(form) {
    this.form = form;
    this.model = form.dataset.model;
    this.field = form.elements.message;
    this.log = document.getElementById("chat-log");
    this.sendButton = document.getElementById("chat-send");
    this.stopButton = document.getElementById("chat-stop");
    this.newButton = document.getElementById("chat-new");
    this.key = `chat ${this.model}`;
    this.said = [];        // {message, facts}: facts of answers alone
    this.abort = null;     // while an answer comes
    this.nothing = element("p", "chat-nothing", `Say something to ${this.model}. The conversation stays in this tab.`);
    if (!this.log.children.length) this.log.append(this.nothing);
    this.restore();
    form.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    form.addEventListener("keydown", (event) => this.press(event));
    this.stopButton.addEventListener("click", () => this.stop());
    this.newButton.addEventListener("click", () => this.clear());
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.stop(); });
    form.addEventListener("input", () => this.keep());
    this.showButtons();
    this.showWhatIsOpen();
  }

  press(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === this.field) {
      event.preventDefault();
      this.send();
    }
  }

  // --- storage ------------------------------------------------------------------------------------------------------

  settings() {
    return Object.fromEntries(["system", "temperature", "max_tokens", "thinking", "tools"].map((name) => [name, this.form.elements[name].value]));
  }

  keep() {
    const kept = JSON.stringify({version: 1, said: this.said, settings: this.settings(), draft: this.field.value});
    try {
      sessionStorage.setItem(this.key, kept);
    } catch {
      this.problem("The conversation is too long for the browser to keep: it is lost when you leave this page.");
    }
  }

  restore() {
    const kept = JSON.parse(sessionStorage.getItem(this.key) || "null");
    if (!kept || kept.version !== 1) return;
    for (const [name, value] of Object.entries(kept.settings)) this.form.elements[name].value = value;
    this.field.value = kept.draft;
    this.said = kept.said;
    this.showAll();
  }

  showAll() {
    this.log.replaceChildren(...(this.said.length ? [] : [this.nothing]));
    for (const each of this.said) this.showSaid(each);
    this.follow();
  }

  showSaid({message, facts}) {
    if (facts) {
      const view = new AnswerView(this.model);
      view.end(facts);
      this.log.append(view.element);
    } else {
      this.log.append(message.role === "tool" ? resultMessage(message.content) : personMessage(message.content));
    }
  }

  clear() {
    this.stop();
    this.said = [];
    this.showAll();
    this.keep();
    this.showButtons();
    this.field.focus();
  }

  // --- asking -------------------------------------------------------------------------------------------------------

  send() {
    const text = this.field.value.trim();
    if (!text || this.abort) return;
    if (this.pending().length) this.problem("First enter the results of the calls, or begin a new conversation.");
    else if (this.say([{role: "user", content: text}])) this.field.value = "";
  }

  // Add messages, and ask for the answer. Returns whether the settings allow that.
  say(messages) {
    let fields;
    try {
      fields = this.fields();
    } catch (error) {
      this.problem(`The tools are not valid JSON: ${error.message}`);
      return false;
    }
    this.nothing.remove();
    this.log.querySelector(".chat-again")?.remove();
    for (const message of messages) {
      this.said.push({message});
      this.showSaid({message});
    }
    this.ask(fields);
    this.keep();
    this.follow();
    return true;
  }

  // Ask again for the last answer, which failed or was stopped.
  again() {
    this.said.pop();
    this.showAll();
    this.say([]);
  }

  // The calls of the last answer, which wait for their results.
  pending() {
    const last = this.said.at(-1);
    return (last && last.message.tool_calls) || [];
  }

  // Show below the last answer the form for the results of its calls, or the button for another try.
  showWhatIsOpen() {
    const last = this.said.at(-1);
    const calls = this.pending();
    if (calls.length) {
      const named = calls.map((call) => ({id: call.id, name: call.function.name}));
      const form = resultsForm(named, (messages) => { if (this.say(messages)) form.remove(); });
      this.log.append(form);
    } else if (last && last.facts && ["error", "stopped"].includes(last.facts.finish)) {
      const button = element("button", "chat-again", "Try again");
      button.type = "button";
      button.addEventListener("click", () => this.again());
      this.log.lastElementChild.append(button);
    }
  }

  // The settings as fields of the request. Throws if the tools are not JSON.
  fields() {
    const {temperature, max_tokens, thinking, tools} = this.settings();
    const fields = {};
    if (temperature) fields.temperature = Number(temperature);
    if (max_tokens) fields.max_tokens = Number(max_tokens);
    if (thinking) fields.thinking = thinking === "on";
    if (tools.trim()) fields.tools = JSON.parse(tools);
    return fields;
  }

  messages() {
    const system = this.form.elements.system.value.trim();
    const first = system ? [{role: "system", content: system}] : [];
    const said = this.said.map((each) => each.message);
    return [...first, ...said.filter((each) => each.role !== "assistant" || each.content || each.tool_calls)];
  }

  async ask(fields) {
    const answer = new Answer(performance.now());
    const view = new AnswerView(this.model);
    const abort = this.abort = new AbortController();
    this.log.append(view.element);
    this.showButtons();
    const frame = () => { this.draw(answer, view); };
    const ticking = setInterval(frame, 50);
    try {
      const response = await fetch(`/chat/${encodeURIComponent(this.model)}/answer`, {
        method: "POST",
        headers: {"content-type": "application/json"},
        body: JSON.stringify({messages: this.messages(), ...fields}),
        signal: abort.signal,
      });
      if (!response.ok) throw new Error(await problemOf(response));
      for await (const event of eventsOf(response.body)) {
        answer.take(event, performance.now());
        if (event.end && !answer.finish) answer.finish = "stop";
      }
      if (!answer.finish) answer.fail("The connection to the console ended before the answer.", performance.now());
    } catch (error) {
      if (abort.signal.aborted) answer.stop(performance.now());
      else answer.fail(error.message, performance.now());
    } finally {
      clearInterval(ticking);
      this.abort = null;
    }
    view.end(answer.facts());
    this.said.push({message: answer.message(), facts: answer.facts()});
    this.keep();
    this.showButtons();
    this.showWhatIsOpen();
    this.follow();
  }

  draw(answer, view) {
    const now = performance.now();
    const stays = this.atEnd();
    view.show(answer.facts());
    if (answer.waits) {
      const interrupted = answer.first !== null;
      view.wait(interrupted ? `Paused: ${WAITS[answer.waits.reason]}` : `Waiting: ${FIRST_WAITS[answer.waits.reason]}`, now - answer.waits.since);
    } else if (answer.first === null) {
      view.wait(readingText(answer.reading), now - answer.began, true);
    } else {
      view.wait("", null);
    }
    if (stays) this.follow();
  }

  stop() {
    if (this.abort) this.abort.abort();
  }

  // --- the page -----------------------------------------------------------------------------------------------------

  problem(text) {
    const said = element("p", "chat-problem", text);
    said.setAttribute("role", "alert");
    this.log.append(said);
    this.follow();
  }

  showButtons() {
    const busy = this.abort !== null;
    this.stopButton.hidden = !busy;
    this.sendButton.hidden = busy;
    this.newButton.hidden = busy || !this.said.length;
  }

  atEnd() {
    const page = document.documentElement;
    return page.scrollHeight - page.scrollTop - page.clientHeight < 80;
  }

  follow() {
    window.scrollTo({top: document.documentElement.scrollHeight});
  }
}

async function problemOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text.trim() || `The console answered with status ${response.status}.`;
  }
}

const chatForm = document.getElementById("chat-form");
if (chatForm) new Chat(chatForm);
