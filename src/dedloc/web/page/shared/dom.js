// Elements: makes them, and changes only what differs, so that focus, selection and a screen
// reader's place stay where they are while numbers come in. Words are never parsed as HTML.

export const by = (id) => document.getElementById(id);

const svgSpace = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// make("p", { class: "soft" }, "words", element): strings become text.
export function make(tag, attributes = {}, ...children) {
  return put(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return put(document.createElementNS(svgSpace, tag), attributes, children);
}

export function setText(node, words) {
  const text = String(words);
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const right_to_left = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc";
const foreign_run = new RegExp(`([${right_to_left}](?:[${right_to_left} ]*[${right_to_left}])?)`);

// A sentence of ours with names in it: what reads from right to left keeps to itself.
export function sentence(words) {
  return words.split(foreign_run).map((part, n) => (n % 2 === 1 ? make("bdi", {}, part) : part));
}

// A name in any script; its direction leaves the words beside it alone.
export function name(words, attributes = {}) {
  return make("bdi", attributes, words);
}

export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}
