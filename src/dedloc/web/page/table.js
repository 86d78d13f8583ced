// Table: rows that stay the same elements while their cells change. On a phone a row is a card of
// its own (style.css); the roles keep it a table for who hears it.

import { make, setAttribute } from "./dom.js";

// columns: {title, key?, number?, wide?, cell(row) → words or a node, sort?(row) → a value}.
// A cell is drawn anew only when what `key(row)` (else `cell`, as words) gives has changed.
export class Table {
  constructor(label, columns, { id = (row) => row.id, rowClass = () => "", sorted = null } = {}) {
    this.columns = columns;
    this.id = id;
    this.rowClass = rowClass;
    this.order = sorted; // {column, down}; null: as they come
    this.rows = new Map();
    this.body = make("tbody", { role: "rowgroup" });
    this.heads = columns.map((column, index) => this.head(column, index));
    const head = make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...this.heads));
    this.element = make(
      "div",
      { class: "table", role: "region", "aria-label": label, tabindex: 0 },
      make("table", { class: "stack", role: "table", "aria-label": label }, head, this.body),
    );
  }

  head(column, index) {
    const words = column.sort
      ? make("button", { type: "button", onclick: () => this.sortBy(index) }, column.title)
      : column.title;
    return make(
      "th",
      { scope: "col", role: "columnheader", class: column.number ? "num" : null },
      words,
    );
  }

  sortBy(index) {
    const again = this.order?.column === index;
    this.order = {
      column: index,
      down: again ? !this.order.down : Boolean(this.columns[index].number),
    };
    if (this.told) this.update(this.told);
  }

  update(rows) {
    this.told = rows;
    const wanted = this.inOrder(rows);
    const ids = new Set(wanted.map(this.id));
    for (const [id, row] of this.rows)
      if (!ids.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    wanted.forEach((row, place) => this.put(row, place));
    this.heads.forEach((head, index) =>
      setAttribute(
        head,
        "aria-sort",
        this.order?.column === index && (this.order.down ? "descending" : "ascending"),
      ),
    );
  }

  // A column that has nothing to say is left out, for readers' ears as well.
  showColumn(title, shown) {
    const index = this.columns.findIndex((column) => column.title === title);
    if (this.columns[index].left_out === !shown) return;
    this.columns[index].left_out = !shown;
    for (const cell of [
      this.heads[index],
      ...[...this.rows.values()].map((row) => row.cells[index]),
    ])
      cell.hidden = !shown;
  }

  inOrder(rows) {
    if (!this.order) return rows;
    const { column, down } = this.order;
    const value = this.columns[column].sort;
    const before = (a, b) => (typeof a === "string" ? a.localeCompare(b) : (a ?? 0) - (b ?? 0));
    return [...rows].sort((a, b) => (down ? -1 : 1) * before(value(a), value(b)));
  }

  put(row, place) {
    const id = this.id(row);
    if (!this.rows.has(id)) this.rows.set(id, this.emptyRow());
    const { element, cells, drawn } = this.rows.get(id);
    setAttribute(element, "class", this.rowClass(row));
    this.columns.forEach((column, index) => {
      const content = column.key ? null : (column.cell(row) ?? "");
      const key = column.key ? JSON.stringify(column.key(row)) : String(content);
      if (drawn[index] === key) return;
      drawn[index] = key;
      cells[index].replaceChildren(
        ...[column.key ? column.cell(row) : content]
          .flat()
          .filter((one) => one !== "" && one !== null),
      );
    });
    if (this.body.children[place] !== element)
      this.body.insertBefore(element, this.body.children[place] ?? null);
  }

  emptyRow() {
    const cells = this.columns.map((column, index) =>
      make(index === 0 ? "th" : "td", {
        scope: index === 0 ? "row" : null,
        role: index === 0 ? "rowheader" : "cell",
        "data-label": column.title,
        class: [column.number && "num", column.wide && "wide"].filter(Boolean).join(" ") || null,
        hidden: column.left_out,
      }),
    );
    return { element: make("tr", { role: "row" }, ...cells), cells, drawn: [] };
  }
}
