// Keeps an open page up to date: the console sends the parts of the page that have changed, and this puts them in place
// without disturbing what is selected, scrolled or focused. Without scripts, the page reloads itself.
"use strict";

function localTimes(within) {
  for (const each of within.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    each.textContent = new Intl.DateTimeFormat(navigator.languages, {dateStyle: "short", timeStyle: "medium"}).format(at);
    each.title = each.dateTime;
  }
}

function put(id, html) {
  const place = document.getElementById(id);
  if (!place) return;
  Idiomorph.morph(place, html, {morphStyle: "innerHTML"});
  localTimes(place);
}

function follow() {
  const source = new EventSource(document.body.dataset.live);
  source.addEventListener("parts", (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) put(id, html);
    document.documentElement.classList.remove("away");
  });
  // A console that is gone closes the stream; the browser connects again by itself.
  source.addEventListener("error", () => document.documentElement.classList.add("away"));
}

localTimes(document);
follow();
