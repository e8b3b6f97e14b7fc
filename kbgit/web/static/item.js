// Citing lines: #L10-L24 in the address marks them, choosing lines makes the citation.
import { announce, enliven } from "./kbgit.js";

const holder = document.querySelector("[data-reference]");
const box = document.getElementById("cite");
const what = document.getElementById("cite-what");
const check = document.getElementById("cite-check");
let first = null;

function lines() {
  const match = /^#L([1-9]\d{0,8})(?:-L?([1-9]\d{0,8}))?$/.exec(location.hash);
  if (!match) return null;
  const start = Number(match[1]);
  const end = Number(match[2] ?? match[1]);
  return start <= end ? [start, end] : [end, start];
}

function numbered(element) {
  if (element.dataset.line) return [Number(element.dataset.line), Number(element.dataset.end ?? element.dataset.line)];
  const link = element.querySelector("[data-number]");
  const number = Number(link?.dataset.number);
  return [number, number];
}

function mark([start, end]) {
  const rows = [...holder.querySelectorAll("tr[id^=L], [data-line]")];
  for (const row of holder.querySelectorAll(".cited")) row.classList.remove("cited");
  const touched = rows.filter((row) => {
    const [from, to] = numbered(row);
    return from <= end && to >= start;
  });
  // Of blocks inside of each other only the innermost are marked.
  const inner = touched.filter((row) => !touched.some((other) => other !== row && row.contains(other)));
  for (const row of inner) row.classList.add("cited");
  return inner[0];
}

function cite([start, end]) {
  const reference = `${holder.dataset.reference}#L${start}-L${end}`;
  box.querySelector(".citation-text").textContent = reference;
  const button = box.querySelector(".copy");
  button.dataset.copy = reference;
  button.setAttribute("aria-label", `Copy citation ${reference}`);
  what.textContent = start === end ? `Line ${start} of this revision.` : `Lines ${start} to ${end} of this revision.`;
  check.href = `/cite?${new URLSearchParams({ reference })}`;
  enliven(box);
}

function follow({ scroll }) {
  const chosen = lines();
  if (!chosen) return;
  const top = mark(chosen);
  cite(chosen);
  if (scroll) top?.scrollIntoView({ block: "center" });
}

if (holder && box) {
  holder.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-number]");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const number = Number(link.dataset.number);
    if (!event.shiftKey || first === null) first = number;
    const [start, end] = [Math.min(first, number), Math.max(first, number)];
    history.replaceState(null, "", `#L${start}-L${end}`);
    follow({ scroll: false });
    announce(what.textContent);
  });
  addEventListener("hashchange", () => follow({ scroll: true }));
  follow({ scroll: true });
}
