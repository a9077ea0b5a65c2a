// Sorts a table by the column whose heading somebody chooses, and keeps the order while the page is updated.
"use strict";

const BY_NAME = new Intl.Collator(navigator.languages, {numeric: true, sensitivity: "base"});
const NUMBER = /^[-+]?\d+(\.\d+)?\s*(%|°C|W|[kMGT]?i?B|ms|s|min|m|h|d)?(?=$|\s)/;
const UNITS = {
  kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, kiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
  ms: 1e-3, min: 60, m: 60, h: 3600, d: 86400,
};
const chosen = new Map();

function nameOf(table) {
  return table.closest("[aria-label]")?.getAttribute("aria-label") ?? table.caption?.textContent ?? "";
}

function headingsOf(table) {
  return [...(table.tHead?.rows[0]?.cells ?? [])];
}

// Rows that belong together, tables of one row, and tables on a screen too narrow for headings are not sorted.
const WIDE = matchMedia("(min-width: 46.01rem)");

function isSortable(table) {
  return WIDE.matches && headingsOf(table).length > 1 && table.tBodies.length === 1 && table.tBodies[0].rows.length > 1
    && !table.querySelector("thead [colspan], [rowspan]") && !table.closest(".unseen, .history-diff");
}

// Each row with the notes below it, which span several columns.
function entriesOf(table) {
  const entries = [];
  for (const row of table.tBodies[0].rows) {
    if (entries.length && row.querySelector("[colspan]")) entries.at(-1).push(row);
    else entries.push([row]);
  }
  return entries;
}

function place(table, entries) {
  table.tBodies[0].append(...entries.flat());
}

function valueOf(cell) {
  const time = cell?.querySelector("time[datetime]");
  if (time) return Date.parse(time.dateTime);
  const text = cell?.textContent.trim() ?? "";
  const number = NUMBER.exec(text);
  return number ? parseFloat(text) * (UNITS[number[2]] ?? 1) : text;
}

// Empty cells come last in both directions; numbers come before words.
function compare(one, other, down) {
  if (one === "" || other === "") return (one === "") - (other === "");
  const sign = down ? -1 : 1;
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return sign * (typeof one === "number" ? one - other : BY_NAME.compare(one, other));
}

function arrange(table) {
  const wish = chosen.get(nameOf(table));
  const headings = headingsOf(table);
  const at = headings.findIndex((heading) => heading.textContent.trim() === wish?.heading);
  headings.forEach((heading, number) => {
    if (number === at) heading.setAttribute("aria-sort", wish.down ? "descending" : "ascending");
    else heading.removeAttribute("aria-sort");
  });
  if (at < 0) return;
  const values = new Map(entriesOf(table).map((entry) => [entry, valueOf(entry[0].cells[at])]));
  place(table, [...values.keys()].sort((one, other) => compare(values.get(one), values.get(other), wish.down)));
}

function prepareTables(within) {
  for (const table of within.querySelectorAll("table")) {
    if (!isSortable(table)) continue;
    [...table.tBodies[0].rows].forEach((row, at) => { row.dataset.place ??= at; });
    for (const heading of headingsOf(table)) {
      if (heading.querySelector("button") || !heading.textContent.trim()) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...heading.childNodes);
      heading.append(button);
    }
    arrange(table);
  }
}

// Up, down, then the page's own order.
document.addEventListener("click", ({target}) => {
  const heading = target.closest?.("button.sort")?.closest("th");
  if (!heading) return;
  const table = heading.closest("table"), name = nameOf(table), text = heading.textContent.trim();
  const before = chosen.get(name);
  if (before?.heading !== text) chosen.set(name, {heading: text, down: false});
  else if (!before.down) chosen.set(name, {heading: text, down: true});
  else chosen.delete(name);
  if (chosen.has(name)) return arrange(table);
  place(table, entriesOf(table).sort(([one], [other]) => one.dataset.place - other.dataset.place));
  arrange(table);
});
