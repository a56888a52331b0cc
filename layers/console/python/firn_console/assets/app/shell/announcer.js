// What a screen reader is told: one polite live region, which the frame draws.
let region = null;

/** The element that announcements go to. */
export function announceIn(element) {
  region = element;
}

/** Say `text` to who can't see it. */
export function announce(text) {
  if (!region) return;
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}
