"use strict";
// Tables sort by a click, Enter or Space on a header, and long ones get a filter box. Without this script they are plain tables.
{
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  const compare = (a, b, text, sign) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // no number: last, whichever way the others go
    return sign * (text ? collator.compare(a, b) : Number(a) - Number(b));
  };

  const sort = (table, column, direction) => {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const text = heads[column].dataset.kind === "text", sign = direction === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value;
    const rows = [...body.rows].sort((one, other) => compare(value(one), value(other), text, sign)); // stable
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? direction : "none"));
    body.append(...rows);
  };

  const addFilter = (table, noun) => {
    const rows = [...table.tBodies[0].rows], box = document.createElement("input"), count = document.createElement("output");
    const line = document.createElement("p");
    Object.assign(box, { type: "search", placeholder: `Filter ${rows.length.toLocaleString("en")} ${noun}`, spellcheck: false });
    box.setAttribute("aria-label", `Filter the ${noun} by name`);
    box.addEventListener("input", () => {
      const wanted = box.value.trim().toLowerCase();
      let shown = 0;
      for (const row of rows) shown += !(row.hidden = !row.cells[0].dataset.value.toLowerCase().includes(wanted));
      count.value = wanted ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : "";
    });
    line.className = "filter";
    line.append(box, count);
    table.parentElement.before(line);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () =>
        sort(table, column, head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending"));
      head.append(button);
      if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    });
    if (table.dataset.filter) addFilter(table, table.dataset.filter);
  }
}
