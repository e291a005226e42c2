(() => {
  "use strict";
  const query = document.getElementById("q"), onlyOpen = document.getElementById("open"), hits = document.getElementById("hits");
  const rows = [...document.querySelectorAll("tbody tr, .step")];
  const show = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const box = row.querySelector("input[type=checkbox]");
      const seen = words.every((word) => text.includes(word)) && !(onlyOpen.checked && box && box.checked);
      row.classList.toggle("hidden", !seen);
      count += seen ? 1 : 0;
    }
    hits.textContent = words.length ? String(count) : "";
  };
  query.addEventListener("input", show);
  onlyOpen.addEventListener("change", show);
  const key = "changegen:" + document.title;
  let ticked = {};
  try { ticked = JSON.parse(localStorage.getItem(key) || "{}"); } catch { ticked = {}; }
  for (const box of document.querySelectorAll("main input[type=checkbox]")) {
    box.checked = Boolean(ticked[box.name]);
    box.addEventListener("change", () => {
      ticked[box.name] = box.checked;
      try { localStorage.setItem(key, JSON.stringify(ticked)); } catch { /* a file: page may have no storage */ }
      show();
    });
  }
})();
