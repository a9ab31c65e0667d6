"use strict";
(() => {
  const rows = JSON.parse(document.getElementById("data").textContent);
  const WORDS = ["good", "fair", "poor"];
  const PAGE = 100;
  const body = document.querySelector("#columns tbody");
  const heads = [...document.querySelectorAll("#columns th")];
  const [search, only, count, more] = ["search", "only", "count", "more"].map((id) => document.getElementById(id));
  const cards = [...document.querySelectorAll(".card[data-name]")];
  let sorted = rows, key = null, down = true, shown = PAGE, found = rows;

  const number = (value) => {
    if (value === null) return "";
    const size = Math.abs(value);
    return size !== 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  };
  const percent = (value) => (value === null ? "" : (100 * value).toFixed(1));
  const FORMS = { text: String, number, percent, times: (value) => (value === null ? "" : value.toFixed(2)), word: (value) => WORDS[value] };
  const shape = heads.map((head) => ({ place: Number(head.dataset.place), form: FORMS[head.dataset.form], word: head.dataset.form === "word" }));

  const cell = (row, { place, form, word }) => {
    const made = document.createElement("td");
    const text = form(row[place]);
    if (word) {
      const chip = document.createElement("span");
      chip.className = "chip " + text;
      chip.textContent = text;
      made.append(chip);
    } else {
      made.textContent = text;
      if (place === 0) made.title = text;
    }
    return made;
  };
  const draw = () => {
    const lines = found.slice(0, shown).map((row) => {
      const line = document.createElement("tr");
      line.append(...shape.map((each) => cell(row, each)));
      return line;
    });
    body.replaceChildren(...lines);
    count.textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} columns`;
    more.hidden = found.length <= shown;
  };
  const filter = () => {
    const asked = search.value.trim().toLowerCase();
    const fits = (name, word) => name.toLowerCase().includes(asked) && (!only.value || only.value === word);
    found = sorted.filter((row) => fits(row[0], WORDS[row[row.length - 1]]));
    for (const card of cards) card.hidden = !fits(card.dataset.name, card.dataset.word);
    shown = PAGE;
    draw();
  };
  const order = (head) => {
    const place = Number(head.dataset.place), text = head.dataset.form === "text";
    down = key === place ? !down : !text;
    key = place;
    const sign = down ? -1 : 1;
    sorted = [...rows].sort((a, b) => {
      const [x, y] = [a[place], b[place]];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (text ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    filter();
  };
  for (const head of heads) head.querySelector("button").addEventListener("click", () => order(head));
  search.addEventListener("input", filter);
  only.addEventListener("change", filter);
  more.addEventListener("click", () => { shown += 5 * PAGE; draw(); });
  window.addEventListener("beforeprint", () => { for (const card of cards) card.hidden = false; });
  draw();
})();
