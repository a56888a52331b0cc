// Light, dark, or what the system prefers: one word in localStorage, one attribute on <html>.
const KEY = "firn.theme";
export const THEMES = ["system", "light", "dark"];

/** The theme that was chosen; "system" if none was. */
export function chosenTheme() {
  const found = remembered(KEY);
  return THEMES.includes(found) ? found : "system";
}

/** Show the chosen theme, or choose another one first. */
export function applyTheme(theme = chosenTheme()) {
  remember(KEY, theme);
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
}

/** What localStorage has under `key`; null where it may not be read. */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Keep `text` in localStorage, if it takes it: a full or forbidden one loses a convenience, nothing else. */
export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // nothing depends on it
  }
}
