// The token of the page's address goes where no history and no link shows it.

import { keep, kept } from "./kept.js";

// `place`: the name that the browser keeps it under, for as long as the page's tab is open.
export function takeToken(place) {
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given) {
    keep("sessionStorage", place, given);
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
  return given || kept("sessionStorage", place);
}
