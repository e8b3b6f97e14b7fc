// What every page has: copying, the colour theme, the account menu, and words for screen readers.

const NEXT = { system: "light", light: "dark", dark: "system" };

/** Say something to those who do not see the page change. */
export function announce(text) {
  const box = document.getElementById("announcements");
  if (!box) return;
  box.textContent = "";
  requestAnimationFrame(() => (box.textContent = text));
}

/** What a change by a script must carry, as the header `X-CSRF-Token`. */
export function csrf() {
  return document.querySelector('meta[name="csrf"]')?.content ?? "";
}

/** Show the buttons that only work with scripts, in a part of the page that is new. */
export function enliven(root) {
  if (navigator.clipboard || document.execCommand) {
    for (const button of root.querySelectorAll(".copy[hidden]")) button.hidden = false;
  }
}

async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  // Without TLS there is no clipboard, but a selection can be copied.
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "visually-hidden";
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  if (!done) throw new Error("not copied");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  try {
    await copy(button.dataset.copy);
    button.textContent = "Copied";
    announce("Copied");
  } catch {
    button.textContent = "Not copied";
    announce("Not copied; select the text instead");
  }
  setTimeout(() => (button.textContent = label), 1600);
});

// The account menu closes as menus do.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

function stored() {
  try {
    return localStorage.getItem("kbgit-theme") ?? "system";
  } catch {
    return "system";
  }
}

function show(theme) {
  const button = document.getElementById("theme");
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  if (!button) return;
  button.textContent = theme[0].toUpperCase() + theme.slice(1);
  button.setAttribute("aria-label", `Colour theme: ${theme}`);
}

const theme = document.getElementById("theme");
if (theme) {
  show(stored());
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const next = NEXT[stored()] ?? "system";
    try {
      if (next === "system") localStorage.removeItem("kbgit-theme");
      else localStorage.setItem("kbgit-theme", next);
    } catch {
      // Then it holds for this page.
    }
    show(next);
    announce(`Colour theme: ${next}`);
  });
}

enliven(document);

// What the editor kept of a text that was sent is not needed any more once its item says that it is saved.
if (location.pathname.includes("/items/") && /[?&]done=(created|changed)\b/.test(location.search)) {
  try {
    for (const key of Object.keys(sessionStorage)) {
      if (key.startsWith("kbgit-draft ") && JSON.parse(sessionStorage.getItem(key)).submitted) sessionStorage.removeItem(key);
    }
  } catch {
    // Then nothing was kept.
  }
}
