// The colours that the user chose, for all pages of dedloc at this address.

import { by } from "./dom.js";
import { keep, kept } from "./kept.js";

const theme = by("theme");

function useTheme(word) {
  if (word) document.documentElement.dataset.theme = word;
  else delete document.documentElement.dataset.theme;
  theme.value = word;
}
useTheme(kept("localStorage", "dedloc-theme"));
theme.addEventListener("change", () => {
  keep("localStorage", "dedloc-theme", theme.value);
  useTheme(theme.value);
});
