// What the browser keeps for this page. A browser may keep nothing for a frame in another page (a
// notebook's, say): the page does without.

export function kept(storage, name) {
  try {
    return window[storage].getItem(name) ?? "";
  } catch {
    return "";
  }
}

export function keep(storage, name, value) {
  try {
    window[storage].setItem(name, value);
  } catch {
    // It is kept for as long as the page is open.
  }
}
