// Before anything is painted: the colours that were chosen here last time, if any were.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("kbgit-theme");
  } catch {
    // Storage may be switched off; then the system decides.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
