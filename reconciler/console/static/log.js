// Follows the output of a rank: appends lines as text, never as markup, and keeps the newest of them.
"use strict";

(function () {
  const LINES_MAX = 5000;
  const place = document.getElementById("log-lines");
  const said = document.getElementById("log-said");
  if (!place) return;
  let count = place.textContent.split("\n").length;

  function append(lines) {
    const atEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    for (const line of lines) place.append(line + "\n");
    count += lines.length;
    if (count > LINES_MAX) {
      const kept = place.textContent.split("\n").slice(-LINES_MAX);
      place.textContent = kept.join("\n");
      count = kept.length;
    }
    if (atEnd) place.scrollTop = place.scrollHeight;
  }

  function follow() {
    const source = new EventSource(place.dataset.follow);
    source.addEventListener("runs", () => { said.textContent = ""; });
    source.addEventListener("lines", (event) => {
      const news = JSON.parse(event.data);
      if (news.leftOut) append(["", `[${news.leftOut} bytes left out: they came faster than this page could show them]`, ""]);
      append(news.lines);
      said.textContent = "";
    });
    source.addEventListener("end", (event) => {
      const {waits} = JSON.parse(event.data);
      if (!waits) source.close();
      said.textContent = waits
        ? "This rank has ended. Once its group is formed again, the log of the next epoch continues here."
        : "This rank has ended. Its log is complete.";
    });
    source.addEventListener("next", (event) => {
      source.close();
      const {name, text} = JSON.parse(event.data);
      append(["", `[from here ${name}: ${text}]`, ""]);
      place.dataset.follow = `/live/logs/${encodeURIComponent(name)}?after=0-followed`;
      follow();
    });
    source.addEventListener("error", () => {
      said.textContent = source.readyState === EventSource.CLOSED
        ? "This log cannot be followed now. Reload the page."
        : "The connection to the console is lost. The page reconnects by itself.";
    });
    source.addEventListener("open", () => { said.textContent = ""; });
  }

  const found = document.getElementById("line");
  if (found) found.scrollIntoView({block: "center"});
  else place.scrollTop = place.scrollHeight;
  if (place.dataset.follow) follow();
})();
