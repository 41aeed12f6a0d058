"use strict";
document.querySelectorAll(".rows").forEach(function (box) {
  const body = box.querySelector("tbody"), all = Array.from(body.rows);
  const key = function (row, index) {
    const cell = row.cells[index], sort = cell.dataset.sort;
    return sort === undefined ? cell.textContent : Number(sort);
  };
  box.querySelectorAll("th").forEach(function (head, index) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", function () {
      const down = head.getAttribute("aria-sort") === "ascending";
      box.querySelectorAll("th").forEach(function (each) { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      all.sort(function (left, right) {
        const a = key(left, index), b = key(right, index);
        const order = typeof a === "number" ? (typeof b === "number" ? a - b : -1)
          : typeof b === "number" ? 1 : a.localeCompare(b, "en", { numeric: true });
        return down ? -order : order;
      });
      body.replaceChildren(...all);
    });
  });
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "Filter rows";
  filter.setAttribute("aria-label", "Filter rows");
  filter.addEventListener("input", function () {
    const wanted = filter.value.toLowerCase();
    all.forEach(function (row) { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
  });
  box.querySelector(".scroll").before(filter);
});
