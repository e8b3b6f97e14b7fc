// Search without leaving the page. Without this script the form does the same by loading the page anew.
import { announce, enliven } from "./kbgit.js";

const form = document.getElementById("search-form");
const results = document.getElementById("results");
const query = document.getElementById("q");
let running = null;

function address() {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value.trim() && !(name === "mode" && value === "hybrid")) fields.append(name, value);
  }
  const text = fields.toString();
  return text ? `/?${text}` : "/";
}

async function load(url, { remember }) {
  running?.abort();
  const mine = (running = new AbortController());
  results.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(url, { signal: mine.signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("results");
    if (!answer.ok || answer.redirected || !found) {
      location.assign(url);
      return;
    }
    results.replaceChildren(...document.importNode(found, true).childNodes);
    document.title = page.title;
    document.querySelector(".hero")?.classList.toggle("hero-small", Boolean(query.value.trim()));
    enliven(results);
    if (remember) history.pushState({ search: true }, "", url);
    const heading = results.querySelector("#results-heading")?.textContent ?? "";
    const count = results.querySelector("#results-count")?.textContent ?? "";
    announce(`${heading} ${count}`.trim());
  } catch (error) {
    if (error.name !== "AbortError") location.assign(url);
  } finally {
    if (running === mine) results.setAttribute("aria-busy", "false");
  }
}

if (form && results) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load(address(), { remember: true });
  });
  for (const field of form.querySelectorAll("select")) {
    field.addEventListener("change", () => query.value.trim() && load(address(), { remember: true }));
  }
  results.addEventListener("click", (event) => {
    const link = event.target.closest?.(".pager a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    load(link.href, { remember: true }).then(() => {
      const heading = results.querySelector("#results-heading");
      heading?.setAttribute("tabindex", "-1");
      heading?.focus();
    });
  });
  addEventListener("popstate", () => location.reload());
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      query.focus();
      query.select();
    }
  });
}
