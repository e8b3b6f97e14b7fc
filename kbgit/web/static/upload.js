// Files dropped or chosen: texts go as JSON, documents as they are, and what becomes of each is shown beside its name.
import { announce, csrf } from "./kbgit.js";

const WAIT = 10; // seconds that the server waits for something to happen to a document
const PAUSE = 3000; // milliseconds before asking again a server that did not answer
const AT_ONCE = 2; // documents on their way together
const MOST_FILES = 1000; // of one drop: whole trees are for `kbgit import`
const form = document.getElementById("upload");
const list = document.getElementById("uploads");
const summary = document.getElementById("summary");
const input = document.getElementById("files");
const drop = document.getElementById("drop");
const words = JSON.parse(form.dataset.words);
const documents = new Map(); // suffix → what the server says of it
const texts = new Map();
const followed = new Map(); // document id → its row
const waiting = []; // what is to be sent, in order
let sending = 0;
let following = false;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  const units = ["kB", "MB", "GB"];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(1)} ${units[unit]}`;
}

function suffixOf(name) {
  const dot = name.lastIndexOf(".");
  return dot > name.lastIndexOf("/") ? name.slice(dot).toLowerCase() : "";
}

function addressOf(item) {
  return `${form.dataset.items}/${item.split("/").map(encodeURIComponent).join("/")}`;
}

async function ask(address, options = {}) {
  const headers = { ...options.headers };
  if (options.method && options.method !== "GET") headers["X-CSRF-Token"] = csrf();
  const answer = await fetch(address, { ...options, headers, credentials: "same-origin" });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw Object.assign(new Error(body?.error?.message ?? `the server answered ${answer.status}`), body?.error);
  return body;
}

/* One row for each file. */

class Row {
  constructor(name) {
    this.name = name;
    this.state = "waiting";
    this.element = document.createElement("li");
    this.element.className = "upload";
    const title = document.createElement("div");
    title.className = "upload-name";
    title.dir = "auto";
    title.textContent = name;
    this.words = document.createElement("div");
    this.words.className = "upload-words";
    this.bar = document.createElement("progress");
    this.bar.max = 1;
    this.bar.setAttribute("aria-label", `Progress of ${name}`);
    this.actions = document.createElement("div");
    this.actions.className = "actions";
    this.element.append(title, this.words, this.actions, this.bar);
    list.append(this.element);
    this.say("Waits to be sent");
  }

  say(text, more = {}) {
    this.words.replaceChildren(text);
    for (const line of more.lines ?? []) this.words.append(document.createElement("br"), line);
    if (more.item) {
      const link = document.createElement("a");
      link.href = addressOf(more.item);
      link.textContent = "Show the item";
      link.setAttribute("aria-label", `Show the item made from ${this.name}`);
      this.words.append(" ", link);
    }
  }

  progress(share) {
    if (share === null) this.bar.removeAttribute("value");
    else this.bar.value = share;
  }

  /** `state` is one of waiting, sending, queued, extracting, ready, failed, cancelled. */
  become(state, text, more = {}) {
    const isNews = state !== this.state && ["ready", "failed", "cancelled"].includes(state);
    this.state = state;
    this.element.className = `upload is-${state}`;
    this.bar.hidden = ["ready", "failed", "cancelled"].includes(state);
    this.say(text, more);
    this.offer(more.actions ?? []);
    if (isNews) announce(`${this.name}: ${text}`);
    count();
  }

  offer(actions) {
    const hadFocus = this.actions.contains(document.activeElement);
    this.actions.replaceChildren(
      ...actions.map(([label, act]) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "button small";
        button.textContent = label;
        button.setAttribute("aria-label", `${label}: ${this.name}`);
        button.addEventListener("click", async () => {
          button.disabled = true;
          try {
            await act();
          } catch (error) {
            this.say(error.message);
          }
        });
        return button;
      }),
    );
    if (hadFocus) (this.actions.querySelector("button") ?? document.getElementById("choose")).focus();
  }
}

const rows = [];

function count() {
  const of = (...states) => rows.filter((row) => states.includes(row.state)).length;
  const parts = [`${of("ready")} of ${rows.length} ${rows.length === 1 ? "file is an item" : "files are items"}`];
  if (of("failed")) parts.push(`${of("failed")} failed`);
  if (of("cancelled")) parts.push(`${of("cancelled")} cancelled`);
  const open = of("waiting", "sending", "queued", "extracting");
  if (open) parts.push(`${open} on the way`);
  const text = `${parts.join(", ")}.`;
  if (summary.textContent !== text) summary.textContent = text;
}

/* Sending. */

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

function failed(row, error, again) {
  const way = [];
  if (error.code === "already_exists") way.push("Something by that name is there already: choose another folder, or tick the box that replaces it, and try again.");
  if (error.code === "unauthenticated" || error.code === "cross_site_request") way.push("Sign in again in another tab, then try again.");
  if (error.code === "conflict") way.push("It was edited here since it came: tick the box that replaces it, and try again, if the file is right.");
  if (error.code === "queue_full") way.push("Try again when some of the others are done.");
  row.become("failed", error.message ?? "It could not be sent", { lines: [...way, ...(error.notes ?? [])], actions: again ? [["Try again", again]] : [] });
}

async function sendText(row, file) {
  const again = () => enqueue(row, file);
  row.become("sending", "Is sent");
  row.progress(null);
  try {
    const answer = await ask(`${form.dataset.api}/files`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        files: [{ name: row.name, content: await base64(file) }],
        folder: document.getElementById("folder").value.trim(),
        status: document.getElementById("status").value,
        replace: document.getElementById("replace").checked,
      }),
    });
    const found = answer.files[0];
    if (found.outcome === "refused") {
      failed(row, { ...found.error, notes: found.notes }, again);
      return;
    }
    const said = { created: "Is an item now", updated: "Replaced what was there", unchanged: "Was there already, exactly like this" };
    row.become("ready", said[found.outcome] ?? found.outcome, { item: found.knowledge_item_id, lines: found.notes });
  } catch (error) {
    failed(row, error, again);
  }
}

function sendDocument(row, file) {
  return new Promise((resolve) => {
    const slash = row.name.lastIndexOf("/");
    const folder = [document.getElementById("folder").value.trim().replace(/\/+$/, ""), slash > 0 ? row.name.slice(0, slash) : ""];
    const query = new URLSearchParams({
      name: row.name.slice(slash + 1),
      folder: folder.filter(Boolean).join("/"),
      replace: String(document.getElementById("replace").checked),
    });
    const request = new XMLHttpRequest();
    const again = () => enqueue(row, file);
    request.open("POST", `${form.dataset.api}/documents?${query}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("X-CSRF-Token", csrf());
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => {
      if (!event.lengthComputable || row.state !== "sending") return;
      row.progress(event.loaded / event.total);
      row.say(`${size(event.loaded)} of ${size(event.total)} sent`);
    });
    request.addEventListener("load", () => {
      if (request.status === 202) show(row, request.response);
      else failed(row, request.response?.error ?? { message: `The server answered ${request.status}` }, again);
      resolve();
    });
    request.addEventListener("error", () => {
      failed(row, { message: "The connection broke off" }, again);
      resolve();
    });
    request.addEventListener("abort", () => {
      row.become("cancelled", "Cancelled before all of it was sent", { actions: [["Try again", again]] });
      resolve();
    });
    row.become("sending", "Is sent", { actions: [["Cancel", () => request.abort()]] });
    request.send(file);
  });
}

function enqueue(row, file) {
  row.become("waiting", "Waits to be sent", {
    actions: [["Cancel", () => {
      const place = waiting.findIndex((one) => one.row === row);
      if (place >= 0) waiting.splice(place, 1);
      row.become("cancelled", "Cancelled", { actions: [["Try again", () => enqueue(row, file)]] });
    }]],
  });
  waiting.push({ row, file });
  work();
}

async function work() {
  while (sending < AT_ONCE && waiting.length) {
    const { row, file } = waiting.shift();
    sending += 1;
    const sent = documents.has(suffixOf(row.name)) ? sendDocument(row, file) : sendText(row, file);
    sent.finally(() => {
      sending -= 1;
      work();
    });
  }
}

/* Following documents. */

function show(row, found) {
  const actions = [];
  const cancel = async () => show(row, await ask(`/api/v1/documents/${found.id}/cancel`, { method: "POST" }));
  const retry = async () => show(row, await ask(`/api/v1/documents/${found.id}/retry`, { method: "POST" }));
  if (found.state === "queued" || found.state === "extracting") actions.push(["Cancel", cancel]);
  if (found.state === "failed") actions.push(["Try again", retry]);
  let text = words.states[found.state] ?? found.state;
  const lines = [];
  if (found.state === "failed") {
    const [why, way] = words.reasons[found.reason] ?? ["", ""];
    text = `${text}. ${found.detail || why}`;
    if (way) lines.push(way);
  }
  lines.push(...(found.notes ?? []));
  followed.set(found.id, row);
  row.document = found;
  row.progress(null);
  row.become(found.state, text, { item: found.knowledge_item_id, lines, actions });
  follow();
}

const isOpen = (row) => row.state === "queued" || row.state === "extracting";

async function renew(id) {
  const row = followed.get(id);
  if (row) show(row, await ask(`/api/v1/documents/${id}`));
}

async function follow() {
  if (following) return;
  following = true;
  let after = null;
  while ([...followed.values()].some(isOpen)) {
    try {
      const query = after ? `?${new URLSearchParams({ after, wait: WAIT })}` : "";
      const found = await ask(`/api/v1/documents/events${query}`);
      // What happened before the first answer is not in it, so every open document is looked at once.
      const touched = after ? found.events.map((event) => event.document) : [...followed].filter(([, row]) => isOpen(row)).map(([id]) => id);
      for (const id of new Set(touched)) await renew(id);
      if (after && !found.events.length) await pause(200);
      after = found.cursor;
    } catch {
      await pause(PAUSE);
      after = null;
    }
  }
  following = false;
}

/* Choosing and dropping. */

function refuse(name, why) {
  const row = new Row(name);
  rows.push(row);
  row.become("failed", why);
}

function take(files) {
  if (files.length > MOST_FILES) {
    announce(`At most ${MOST_FILES} files at once`);
    summary.textContent = `These are ${files.length} files; at most ${MOST_FILES} can be uploaded at once here. For whole trees there is kbgit import.`;
    return;
  }
  for (const { file, name } of files) {
    const kind = documents.get(suffixOf(name)) ?? texts.get(suffixOf(name));
    if (!kind) refuse(name, `Files of this kind are not read. ${known()}`);
    else if (!file.size) refuse(name, "It is empty.");
    else if (file.size > kind.max_bytes) refuse(name, `It has ${size(file.size)}; at most ${size(kind.max_bytes)} are taken.`);
    else {
      const row = new Row(name);
      rows.push(row);
      enqueue(row, file);
    }
  }
  count();
}

/** The files of what was dropped, those in folders too, each with its path. */
async function dropped(items) {
  const found = [];
  async function walk(entry, path) {
    if (found.length > MOST_FILES) return;
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push({ file, name: path + entry.name });
    } else if (!entry.name.startsWith(".")) {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) break;
        for (const one of some) await walk(one, `${path}${entry.name}/`);
      }
    }
  }
  // Entries are gone once the event is over, so all are taken before any is waited for.
  const entries = [...items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  for (const entry of entries) {
    if (entry instanceof File) found.push({ file: entry, name: entry.name });
    else if (entry) await walk(entry, "");
  }
  return found;
}

function known() {
  return `Texts (${[...texts.keys()].join(" ")}) and documents (${[...documents.keys()].join(" ")}) are.`;
}

async function begin() {
  try {
    const kinds = await ask("/api/v1/file-types");
    for (const kind of kinds.documents) documents.set(kind.suffix, kind);
    for (const kind of kinds.texts) texts.set(kind.suffix, kind);
  } catch (error) {
    summary.textContent = `Files cannot be taken now: ${error.message}`;
    return;
  }
  const up = (kinds) => size(Math.max(0, ...[...kinds.values()].map((kind) => kind.max_bytes)));
  document.getElementById("kinds").textContent =
    `Texts and code up to ${up(texts)}: ${[...texts.keys()].join(" ")}. Documents up to ${up(documents)}: ${[...documents.keys()].join(" ")}.`;
  form.hidden = false;
}

document.getElementById("choose").addEventListener("click", () => input.click());
input.addEventListener("change", () => {
  take([...input.files].map((file) => ({ file, name: file.webkitRelativePath || file.name })));
  input.value = "";
});
form.addEventListener("submit", (event) => event.preventDefault());
let depth = 0; // dragenter and dragleave come for every element inside
drop.addEventListener("dragenter", () => {
  depth += 1;
  drop.classList.add("is-over");
});
drop.addEventListener("dragleave", () => {
  depth -= 1;
  if (depth <= 0) drop.classList.remove("is-over");
});
drop.addEventListener("drop", async (event) => {
  depth = 0;
  drop.classList.remove("is-over");
  take(await dropped(event.dataTransfer.items));
});
// A file that misses the box must not replace the page.
for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
window.addEventListener("beforeunload", (event) => {
  if (rows.some((row) => row.state === "sending" || row.state === "waiting")) event.preventDefault();
});

begin();
