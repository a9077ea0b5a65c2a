// The text of a model as elements: paragraphs, headings, lists, quotes, tables, code. Text only becomes text: nothing from a model is
// ever read as HTML.
"use strict";

const SEAM = "\uE000";
// Marks the place in a text where another group continued it.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const INLINE = /(`+)([\s\S]+?)\1(?!`)|\*\*([^\s*](?:[\s\S]*?[^\s])?)\*\*|\*([^\s*](?:[^*]*?[^\s*])?)\*|\uE000/;

// Show a text in an element. Called for every change of a growing text: unchanged blocks stay in place.
function showText(into, text, seams) {
  const blocks = blocksOf(text);
  blocks.forEach((block, index) => {
    const key = JSON.stringify(block);
    const there = into.children[index];
    if (there && there.chatKey === key) return;
    const made = elementOf(block, seams);
    made.chatKey = key;
    if (there) there.replaceWith(made);
    else into.append(made);
  });
  while (into.children.length > blocks.length) into.lastElementChild.remove();
}

// The blocks of a text: ``{kind, ...}`` each.
function blocksOf(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(lines, at);
    if (block) blocks.push(block);
    at = next;
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return codeAt(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{kind: "heading", level: heading[1].length, text: heading[2]}, at + 1];
  if (RULE.test(line)) return [{kind: "rule"}, at + 1];
  if (ITEM.test(line)) return listAt(lines, at);
  if (/^ {0,3}>/.test(line)) return quoteAt(lines, at);
  if (isTable(lines, at)) return tableAt(lines, at);
  const text = [];
  while (at < lines.length && lines[at].trim() && (!text.length || !begins(lines, at))) text.push(lines[at++].trim());
  return [{kind: "paragraph", text: text.join("\n")}, at];
}

function begins(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || /^ {0,3}>/.test(line) || isTable(lines, at);
}

function codeAt(lines, at, fence) {
  const end = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
  const code = [];
  for (at += 1; at < lines.length && !end.test(lines[at]); at += 1) code.push(lines[at]);
  return [{kind: "code", language: fence[2], text: code.join("\n")}, at + 1];
}

function listAt(lines, at) {
  const first = ITEM.exec(lines[at]);
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const items = [];
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || item[1].length < indent || (item[1].length < indent + 2 && /\d/.test(item[2]) !== ordered)) break;
    const inner = [item[3]];
    const depth = lines[at].length - item[3].length;
    at += 1;
    while (at < lines.length && belongs(lines, at, indent)) inner.push(lines[at++].slice(0, depth).trimStart() + lines[at - 1].slice(depth));
    items.push(blocksOf(inner.join("\n")));
  }
  return [{kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items}, at];
}

// True if a line continues an item: it is indented, or the rest of its paragraph.
function belongs(lines, at, indent) {
  const line = lines[at];
  if (!line.trim()) return at + 1 < lines.length && /^\s/.test(lines[at + 1]) && lines[at + 1].search(/\S/) > indent;
  if (line.search(/\S/) > indent + 1) return true;
  return lines[at - 1].trim() !== "" && !begins(lines, at) && !RULE.test(line);
}

function quoteAt(lines, at) {
  const inner = [];
  while (at < lines.length && /^ {0,3}>/.test(lines[at])) inner.push(lines[at++].replace(/^ {0,3}> ?/, ""));
  return [{kind: "quote", blocks: blocksOf(inner.join("\n"))}, at];
}

function isTable(lines, at) {
  return lines[at].includes("|") && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$/.test(lines[at + 1] || "");
}

function tableAt(lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const head = cells(lines[at]);
  const right = cells(lines[at + 1]).map((rule) => rule.endsWith(":") && !rule.startsWith(":"));
  const rows = [];
  for (at += 2; at < lines.length && lines[at].includes("|"); at += 1) rows.push(cells(lines[at]));
  return [{kind: "table", head, right, rows}, at];
}

// --- elements --------------------------------------------------------------------------------------------------------

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function elementOf(block, seams) {
  switch (block.kind) {
    case "heading": return inline(element(`h${Math.min(6, block.level + 2)}`), block.text, seams);
    case "rule": return element("hr");
    case "code": return codeElement(block, seams);
    case "quote": return element("blockquote", "", ...block.blocks.map((each) => elementOf(each, seams)));
    case "list": return listElement(block, seams);
    case "table": return tableElement(block, seams);
    default: return inline(element("p"), block.text, seams);
  }
}

function codeElement(block, seams) {
  const code = element("code");
  block.text.split(SEAM).forEach((part, index) => code.append(...(index ? [seamElement(seams)] : []), part));
  const copy = copyButton("Copy code", () => block.text.replaceAll(SEAM, ""));
  const pre = element("pre", "", code);
  pre.tabIndex = 0;
  return element("div", "chat-code", element("div", "chat-code-head", element("span", "", block.language || "text"), copy), pre);
}

function listElement(block, seams) {
  const list = element(block.ordered ? "ol" : "ul");
  if (block.start !== 1) list.start = block.start;
  for (const item of block.items) list.append(element("li", "", ...item.map((each) => elementOf(each, seams))));
  return list;
}

function tableElement(block, seams) {
  const row = (cells, name) => element("tr", "", ...cells.map((cell, index) =>
    inline(element(name, block.right[index] ? "number" : ""), cell, seams)));
  const table = element("table", "", element("thead", "", row(block.head, "th")), element("tbody", "", ...block.rows.map((cells) => row(cells, "td"))));
  return element("div", "chat-table", table);
}

// Append a text with its emphasis and code; a line break in the text becomes one on the page.
function inline(into, text, seams) {
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    into.append(rest.slice(0, found.index));
    if (found[0] === SEAM) into.append(seamElement(seams));
    else if (found[1]) into.append(element("code", "", found[2].replaceAll(SEAM, "")));
    else into.append(inline(element(found[3] ? "strong" : "em"), found[3] || found[4], seams));
    rest = rest.slice(found.index + found[0].length);
  }
  into.append(rest);
  return into;
}

function seamElement(seams) {
  const made = element("span", "chat-seam", seams.short);
  made.title = seams.long;
  return made;
}

function copyButton(label, text) {
  const button = element("button", "chat-copy", "Copy");
  button.type = "button";
  button.hidden = !navigator.clipboard;  // there is none on a page that came over the network without TLS
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return button;
}
