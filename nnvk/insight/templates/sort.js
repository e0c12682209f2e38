"use strict";
// A click on a column's name sorts the rows, and another one the other way round. Numbers come before other text.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const way = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way);
    const sign = way === "ascending" ? 1 : -1;
    const text = (row) => row.cells[head.cellIndex].textContent;
    const value = (row) => head.classList.contains("numbers") ? parseFloat(text(row)) : NaN;
    const compare = (one, other) => {
      const [a, b] = [value(one), value(other)];
      if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1;
      return sign * (isNaN(a) ? text(one).localeCompare(text(other), "en", { numeric: true }) : a - b);
    };
    body.append(...[...body.rows].sort(compare));
  });
}
