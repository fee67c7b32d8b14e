"use strict";
// Sorts a table by the column whose heading is clicked; a second click turns the order round. Figures carry
// their value in data-v, so that 900 ns comes before 1.2 µs; what has none comes last either way.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement;
    const table = heading.closest("table");
    const column = [...heading.parentElement.children].indexOf(heading);
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentElement.children) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const value = (row) => {
      const cell = row.children[column];
      return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    const figures = heading.classList.contains("figure");
    const compare = (a, b) => {
      if (!figures) return sign * a.children[column].textContent.localeCompare(b.children[column].textContent);
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (x - y);
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
  });
}
