// Keeps an open page up to date: the console sends the changed parts of the page, and this puts them in place without
// disturbing selection, scrolling or focus. Without scripts, the page reloads itself.
"use strict";

const DAY_TOO = new Intl.DateTimeFormat(navigator.languages, {dateStyle: "medium", timeStyle: "medium"});
const IN_FULL = new Intl.DateTimeFormat(navigator.languages, {dateStyle: "full", timeStyle: "long"});
const TODAY = new Intl.DateTimeFormat(navigator.languages, {timeStyle: "medium"});

// Times in the browser's zone and language; today's times without the date.
function localTimes(within) {
  const today = new Date().toDateString();
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    each.textContent = (at.toDateString() === today ? TODAY : DAY_TOO).format(at);
    each.title = IN_FULL.format(at);
  }
}

// Complete the new content before putting it in place: nothing changes twice, and a screen reader hears only news.
function put(id, html) {
  const place = document.getElementById(id);
  if (!place) return;
  const draft = document.createElement("template");
  draft.innerHTML = html;
  localTimes(draft.content);
  prepareTables(draft.content);
  Idiomorph.morph(place, [...draft.content.childNodes], {morphStyle: "innerHTML"});
}

// News take only a part of each frame, so that the page stays responsive however much has changed; a part that came twice
// in the meantime is put in place once. A hidden page waits until somebody sees it.
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
  // A console that ends closes the stream; the browser reconnects by itself, but not after a refusal.
  source.addEventListener("error", ({target}) => {
    document.documentElement.classList.add("away");
    if (target.readyState !== EventSource.CLOSED || target !== source) return;
    source = null;
    setTimeout(comeBack, 2000);
  });
}

// A browser opens six connections to a host: a hidden page leaves its own to another one.
function leaveWhileHidden() {
  if (!document.hidden) return follow();
  source?.close();
  source = null;
}

// A user who is no longer logged in goes to the login; a page that was one too many follows again.
async function comeBack() {
  const answer = await fetch(location.href, {redirect: "manual", cache: "no-store"}).catch(() => null);
  if (answer && answer.type === "opaqueredirect") location.reload();
  else follow();
}

// A slash leads to the search, unless somebody is typing.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  document.getElementById("query")?.focus();
});

// If the row of pages is wider than the screen, scroll to the open one. Not with scrollIntoView: in some versions of
// Chromium, the first Tab then goes on from there, past the link to the content.
for (const open of document.querySelectorAll("nav [aria-current]")) {
  const row = open.closest("nav"), place = open.getBoundingClientRect();
  row.scrollLeft += place.left + place.width / 2 - row.getBoundingClientRect().left - row.clientWidth / 2;
}
localTimes(document);
prepareTables(document);
if (document.body.dataset.live) {
  document.addEventListener("visibilitychange", leaveWhileHidden);
  follow();
}
