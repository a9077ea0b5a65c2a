// Keeps an open page up to date: the console sends the parts of the page that have changed, and this puts them in place
// without disturbing what is selected, scrolled or focused. Without scripts, the page reloads itself.
"use strict";

const DAY_TOO = new Intl.DateTimeFormat(navigator.languages, {dateStyle: "medium", timeStyle: "medium"});
const IN_FULL = new Intl.DateTimeFormat(navigator.languages, {dateStyle: "full", timeStyle: "long"});
const TODAY = new Intl.DateTimeFormat(navigator.languages, {timeStyle: "medium"});

// Moments by the browser's clock, zone and language; of today, the time alone.
function localTimes(within) {
  const today = new Date().toDateString();
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    each.textContent = (at.toDateString() === today ? TODAY : DAY_TOO).format(at);
    each.title = IN_FULL.format(at);
  }
}

// What is put in place is complete before: nothing on the page changes twice, and a screen reader hears only news.
function put(id, html) {
  const place = document.getElementById(id);
  if (!place) return;
  const draft = document.createElement("template");
  draft.innerHTML = html;
  localTimes(draft.content);
  prepareTables(draft.content);
  Idiomorph.morph(place, [...draft.content.childNodes], {morphStyle: "innerHTML"});
}

// A part of a frame is spent on news, so that the page stays at hand however much has changed; what has come twice in
// the meantime is put in place once. A page that nobody sees waits until somebody does.
const FRAME_MILLISECONDS = 6;
const waiting = new Map();

function receive(parts) {
  if (!waiting.size) requestAnimationFrame(work);
  for (const [id, html] of Object.entries(parts)) {
    waiting.delete(id);
    waiting.set(id, html);
  }
}

function work() {
  const end = performance.now() + FRAME_MILLISECONDS;
  for (const [id, html] of waiting) {
    waiting.delete(id);
    put(id, html);
    if (performance.now() > end) break;
  }
  if (waiting.size) requestAnimationFrame(work);
}

let source = null;

function follow() {
  if (source || document.hidden) return;
  source = new EventSource(document.body.dataset.live);
  source.addEventListener("parts", (event) => {
    receive(JSON.parse(event.data));
    document.documentElement.classList.remove("away");
  });
  // A console that is gone closes the stream; the browser connects again by itself, but not to one that refuses it.
  source.addEventListener("error", ({target}) => {
    document.documentElement.classList.add("away");
    if (target.readyState !== EventSource.CLOSED || target !== source) return;
    source = null;
    setTimeout(comeBack, 2000);
  });
}

// A browser opens six connections to a host: a page that nobody sees gives its own to another one.
function leaveWhileHidden() {
  if (!document.hidden) return follow();
  source?.close();
  source = null;
}

// Who is no longer logged in is led to the login; who was one too many follows again.
async function comeBack() {
  const answer = await fetch(location.href, {redirect: "manual", cache: "no-store"}).catch(() => null);
  if (answer && answer.type === "opaqueredirect") location.reload();
  else follow();
}

// A slash leads to the search from wherever nobody types.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  document.getElementById("query")?.focus();
});

// Where pages are in a row that is wider than the screen, the one that is open is in sight.
document.querySelector("nav [aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});
localTimes(document);
prepareTables(document);
if (document.body.dataset.live) {
  document.addEventListener("visibilitychange", leaveWhileHidden);
  follow();
}
