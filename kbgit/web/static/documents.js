// The list of documents follows what happens to them: the server's own page, fetched again when it says that something did.
import { announce } from "./kbgit.js";

const WAIT = 10; // seconds that the server waits for something to happen
const PAUSE = 5000; // milliseconds after it did not answer
const list = document.getElementById("documents");

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const isOpen = () => list.querySelector('[data-state="queued"], [data-state="extracting"]') !== null;

async function renew() {
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("documents");
  if (!fresh || fresh.innerHTML === list.innerHTML) return;
  const news = [];
  for (const row of fresh.querySelectorAll(".upload")) {
    const before = document.getElementById(row.id);
    if (before && before.dataset.state !== row.dataset.state) {
      news.push(`${row.querySelector(".upload-name").textContent}: ${row.querySelector(".upload-words").firstChild.textContent.trim()}`);
    }
  }
  const focused = document.activeElement?.closest?.(".upload")?.id;
  list.replaceChildren(...fresh.childNodes);
  if (focused) document.getElementById(focused)?.querySelector("button, a")?.focus();
  if (news.length) announce(news.join(". "));
}

async function follow() {
  let after = null;
  while (isOpen()) {
    try {
      const query = after ? `?${new URLSearchParams({ after, wait: WAIT })}` : "";
      const answer = await fetch(`/api/v1/documents/events${query}`, { credentials: "same-origin" });
      if (answer.status === 401 || answer.status === 403) return;
      if (!answer.ok) throw new Error(String(answer.status));
      const found = await answer.json();
      // The first answer is the place to start from: what happened until then is looked at once.
      if (!after || found.events.some((event) => event.base === list.dataset.base)) await renew();
      else if (!found.events.length) await pause(200);
      after = found.cursor;
    } catch {
      await pause(PAUSE);
    }
  }
}

follow();
