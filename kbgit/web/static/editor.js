// The editor: the preview follows the text, Ctrl+S saves, and what was typed survives a reload or a refusal.
import { announce, csrf } from "./kbgit.js";

const PAUSE = 350; // milliseconds without a key before the text is looked at
const form = document.getElementById("editor");
const text = document.getElementById("text");
const preview = document.getElementById("preview");
const problems = document.getElementById("problems");
const count = document.getElementById("count");
const place = document.getElementById("place");
const state = document.getElementById("saved-state");
const save = document.getElementById("save");
const key = `kbgit-draft ${form.dataset.key}`;
const expected = form.elements.expected_revision?.value ?? "";
// What comes back from one of the form's own buttons is not saved yet.
const saved = form.dataset.answer ? null : text.value;

let timer = 0;
let asked = null;
let leaving = false;
let said = "";

function isChanged() {
  return text.value !== saved;
}

/* What was typed, kept for this tab. */

function draft() {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

function keep(submitted = false) {
  try {
    if (!isChanged()) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify({ text: text.value, expected, at: Date.now(), submitted }));
  } catch {
    // Full or forbidden: then the guard against leaving is all there is.
  }
}

function forget() {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // Nothing was kept.
  }
}

function offerDraft() {
  const found = draft();
  const box = document.getElementById("restore");
  if (!found || typeof found.text !== "string") return;
  // What was sent is kept until a page says that it is saved (kbgit.js); what came back is in the form already.
  if (form.dataset.answer || found.text === text.value) {
    forget();
    return;
  }
  document.getElementById("restore-when").textContent = new Date(found.at).toLocaleString();
  box.hidden = false;
  document.getElementById("restore-yes").addEventListener("click", () => {
    text.value = found.text;
    box.hidden = true;
    text.focus();
    changed();
    announce(found.expected === expected ? "Your text is back" : "Your text is back; the item has changed since");
  });
  document.getElementById("restore-no").addEventListener("click", () => {
    forget();
    box.hidden = true;
    text.focus();
  });
}

/* What it will look like, and what is wrong. */

function lineStart(number) {
  let start = 0;
  for (let line = 1; line < number; line += 1) {
    const end = text.value.indexOf("\n", start);
    if (end < 0) return start;
    start = end + 1;
  }
  return start;
}

function goTo(problem) {
  const start = lineStart(problem.line);
  const end = text.value.indexOf("\n", start);
  text.focus();
  text.setSelectionRange(problem.column ? start + problem.column - 1 : start, end < 0 ? text.value.length : end);
  const height = parseFloat(getComputedStyle(text).lineHeight) || 22;
  text.scrollTop = Math.max(0, (problem.line - 4) * height);
}

function showProblems(found) {
  const list = document.createElement("ul");
  for (const problem of found) {
    const row = document.createElement("li");
    row.className = problem.kind;
    const where = document.createElement("button");
    where.type = "button";
    where.textContent = problem.column ? `Line ${problem.line}, column ${problem.column}` : `Line ${problem.line}`;
    where.addEventListener("click", () => goTo(problem));
    row.append(where, ` ${problem.what}`);
    if (problem.mend) {
      const mend = document.createElement("span");
      mend.className = "mend";
      mend.textContent = problem.mend;
      row.append("; ", mend);
    }
    list.append(row);
  }
  // Said again only when something else is wrong: not at every key.
  const words = JSON.stringify(found);
  if (words !== said) problems.replaceChildren(...(found.length ? [list] : []));
  said = words;
  if (found.some((one) => one.kind === "problem")) text.setAttribute("aria-invalid", "true");
  else text.removeAttribute("aria-invalid");
}

const FIELDS = ["title", "description", "tags", "status"];

function fields() {
  const found = {};
  for (const name of FIELDS) {
    found[name] = form.elements[name].value;
    found[`was_${name}`] = form.elements[`was_${name}`].value;
  }
  return found;
}

/** Put what the fields say into the text; they count as shown then. */
function setText(value, sent) {
  const start = text.selectionStart;
  text.value = value;
  text.setSelectionRange(start, start);
  for (const name of FIELDS) form.elements[`was_${name}`].value = sent[name];
  state.textContent = isChanged() ? "Not saved" : "";
  keep();
}

async function look(withFields = false) {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  const body = { text: text.value };
  if (withFields) body.fields = fields();
  if (form.dataset.item) Object.assign(body, { item_id: form.dataset.item, locator: form.dataset.locator });
  try {
    const answer = await fetch(form.dataset.preview, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf() },
      body: JSON.stringify(body),
      credentials: "same-origin",
      signal,
    });
    if (!answer.ok) throw new Error(String(answer.status));
    const found = await answer.json();
    if (withFields && found.text !== null && text.value === body.text) setText(found.text, body.fields);
    const top = preview.scrollTop;
    preview.innerHTML = found.html || '<p class="quiet">Nothing to show yet.</p>';
    preview.scrollTop = top;
    showProblems(found.problems);
    count.textContent = `${found.words} ${found.words === 1 ? "word" : "words"}`;
  } catch (error) {
    if (error.name === "AbortError") return;
    count.textContent = error.message === "401" || error.message === "403"
      ? "No preview: your session has ended. Copy your text before you sign in again."
      : "No preview: the server does not answer. Your text is kept in this tab.";
  }
}

function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    keep();
    look();
  }, PAUSE);
  state.textContent = isChanged() ? "Not saved" : "";
}

function showPlace() {
  const before = text.value.slice(0, text.selectionStart);
  place.textContent = `Line ${before.split("\n").length}`;
}

text.addEventListener("input", changed);
for (const name of FIELDS) form.elements[name].addEventListener("change", () => look(true));
for (const name of ["keyup", "click", "focus"]) text.addEventListener(name, showPlace);

document.getElementById("preview-button").addEventListener("click", (event) => {
  event.preventDefault();
  look();
  preview.focus();
});

form.addEventListener("submit", () => {
  leaving = true;
  keep(true);
});
document.getElementById("cancel").addEventListener("click", (event) => {
  if (isChanged() && !confirm("Leave without saving? Your text is not kept.")) {
    event.preventDefault();
    return;
  }
  leaving = true;
  forget();
});
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "s") {
    event.preventDefault();
    form.requestSubmit(save);
  }
});
window.addEventListener("beforeunload", (event) => {
  if (leaving || !isChanged()) return;
  keep();
  event.preventDefault();
});
window.addEventListener("pageshow", () => (leaving = false));

offerDraft();
look();
if (form.dataset.answer) {
  keep();
  state.textContent = "Not saved";
} else if (!form.dataset.item) {
  document.getElementById("title").focus();
}
