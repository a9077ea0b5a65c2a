// Light, dark, or as the system is set. This runs before the page is painted, so that no colour changes visibly.
"use strict";

const THEMES = {"": "System", light: "Light", dark: "Dark"};

function paint(theme) {
  if (theme in THEMES) document.documentElement.dataset.theme = theme;
}

// A browser that stores nothing for this page keeps the system's theme.
function kept() {
  try { return localStorage.getItem("theme") || ""; } catch { return ""; }
}

function keep(theme) {
  paint(theme);
  try { localStorage.setItem("theme", theme); } catch { /* until the page is left */ }
}

paint(kept());
addEventListener("storage", ({key}) => key === "theme" && paint(kept()));
addEventListener("DOMContentLoaded", () => {
  const place = document.getElementById("theme");
  if (!place) return;
  const choice = document.createElement("select");
  choice.append(...Object.entries(THEMES).map(([value, text]) => new Option(text, value, false, value === kept())));
  choice.addEventListener("change", () => keep(choice.value));
  const label = document.createElement("label");
  label.append("Theme ", choice);
  place.append(label);
});
