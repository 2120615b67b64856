"use strict";
(() => {
  const CHUNK = 300, REACH = 28, POLL = 2000;
  const find = (id) => document.getElementById(id);
  let labels = [], rows = [], dots = [], places = [], order = [], texts = null;
  let pointed = -1, chosen = -1;

  // Everything that a row holds was written by others: it becomes text, never markup.
  function make(name, text, className) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  function read() {
    const data = JSON.parse(find("data").textContent);
    labels = data.labels; rows = data.rows; texts = null; pointed = chosen = -1;
    dots = [...document.querySelectorAll("#stage .dot")];
    places = dots.map((dot) => dot.getAttribute("d").slice(1).split(/[ h]/).map(Number));
    order = rows.map((_, i) => i).sort((a, b) => places[a][0] - places[b][0] || a - b);
  }

  const labelOf = (i) => labels[rows[i][1]];
  const isKept = (i) => ["kept", "baseline"].includes(labelOf(i)[0]);
  const words = (i) => labelOf(i).join(", ").replaceAll("_", " ");

  function nearest(event) {
    const box = document.querySelector("#stage svg").getBoundingClientRect();
    const left = event.clientX - box.left, top = event.clientY - box.top;
    let low = 0, high = order.length, best = -1, least = REACH * REACH;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places[order[middle]][0] * box.width / 1000 < left - REACH) low = middle + 1; else high = middle;
    }
    for (; low < order.length; low++) {
      const i = order[low], across = places[i][0] * box.width / 1000 - left;
      if (across > REACH) break;
      const upward = places[i][1] * box.height / 400 - top;
      const apart = (across * across + upward * upward) * (isKept(i) ? 0.6 : 1);
      if (apart < least) { least = apart; best = i; }
    }
    return best;
  }

  function point(i, aloud) {
    if (pointed >= 0) dots[pointed].classList.remove("pointed");
    pointed = i;
    const tip = find("tip");
    tip.hidden = i < 0;
    if (i < 0) return;
    dots[i].classList.add("pointed");
    const [iteration, , value, title] = rows[i];
    const head = `${iteration}: ${value === null ? "no number" : value}`;
    tip.replaceChildren(make("strong", head), make("span", words(i)), make("div", title));
    if (aloud) find("readout").textContent = `iteration ${head}, ${words(i)}. ${title}`;
    const stage = find("stage").getBoundingClientRect(), dot = dots[i].getBoundingClientRect();
    const left = dot.left + dot.width / 2 - stage.left, top = dot.top - stage.top;
    const beside = left + tip.offsetWidth + 24 > stage.width ? left - tip.offsetWidth - 16 : left + 16;
    tip.style.left = `${Math.max(0, beside)}px`;
    tip.style.top = `${Math.max(0, top - tip.offsetHeight - 8)}px`;
  }

  function keepAddress(address) {  // in a notebook the page lies in a frame without an address
    if (location.protocol !== "about:") history.replaceState(null, "", address);
  }

  function choose(i, moves) {
    if (chosen >= 0) dots[chosen].classList.remove("chosen");
    chosen = i;
    const card = find("record");
    card.hidden = i < 0;
    if (i < 0) { keepAddress(location.pathname + location.search); return; }
    dots[i].classList.add("chosen");
    const [iteration, , value, title, why, files, commit, seconds, when] = rows[i];
    const list = make("dl");
    for (const [name, text] of [["tried", title], ["outcome", words(i)], ["why", why], ["value", value],
      ["files", files], ["commit", commit], ["took", `${seconds} s`], ["when", when && `${when.replace("T", " ")} UTC`]]) {
      if (text) list.append(make("dt", name), make("dd", text));
    }
    const close = make("button", "Close", "close");
    close.type = "button";
    close.addEventListener("click", () => { choose(-1); find("stage").focus(); });
    card.replaceChildren(make("h3", `Iteration ${iteration}`), close, list);
    const kept = find(`kept-${iteration}`);
    if (kept) {
      const open = make("button", "Its change");
      open.type = "button";
      open.addEventListener("click", () => { kept.hidden = false; kept.open = true; kept.scrollIntoView({ block: "start" }); kept.firstElementChild.focus(); });
      card.append(open);
    }
    keepAddress(`#iteration-${iteration}`);
    if (moves) card.focus();
  }

  function step(event) {
    if (event.target !== find("stage")) return;
    const at = order.indexOf(pointed), last = order.length - 1;
    const moves = { ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), Home: 0, End: last };
    if (event.key in moves) point(order[moves[event.key]], true);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const way = event.key === "ArrowUp" ? 1 : -1;
      let to = at + way;
      while (to >= 0 && to <= last && !isKept(order[to])) to += way;
      if (to >= 0 && to <= last) point(order[to], true);
    } else if ((event.key === "Enter" || event.key === " ") && pointed >= 0) choose(pointed, true);
    else if (event.key === "Escape") { point(-1); choose(-1); } else return;
    event.preventDefault();
  }

  function setUpPlot() {
    const stage = find("stage");
    if (!stage) return;
    stage.tabIndex = 0;
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-label", "The plot. Left and right go from try to try, up and down among the kept ones, Enter opens one.");
    stage.addEventListener("pointermove", (event) => point(nearest(event)));
    stage.addEventListener("pointerleave", () => point(-1));
    stage.addEventListener("click", (event) => { const i = nearest(event); if (i >= 0) { point(i, true); choose(i, false); } });
    stage.addEventListener("keydown", step);
    stage.addEventListener("blur", () => point(-1));
  }

  const idOf = (label) => `not-${label[0]}-${label[1]}`;

  function rowOf(i) {
    const [iteration, , value, title, why] = rows[i];
    const row = make("tr"), told = make("td"), link = make("button", iteration), first = make("td");
    link.type = "button";
    link.addEventListener("click", () => { choose(i, true); find("record").scrollIntoView({ block: "center" }); });
    first.append(link);
    told.append(make("span", title || why, "tried"));
    if (title) told.append(make("span", why, "why"));
    row.append(first, make("td", value === null ? "" : value), told);
    return row;
  }

  function fill(group, found) {
    const body = group.querySelector("tbody");
    for (const old of group.querySelectorAll(":scope > p")) old.remove();
    body.replaceChildren(...found.slice(0, CHUNK).map(rowOf));
    if (found.length <= CHUNK) return;
    let shown = CHUNK;
    const line = make("p"), more = make("button", `Show ${CHUNK} more of ${found.length}`);
    more.type = "button";
    more.addEventListener("click", () => {
      body.append(...found.slice(shown, shown + CHUNK).map(rowOf));
      shown += CHUNK;
      if (shown >= found.length) line.remove();
    });
    line.append(more);
    group.append(line);
  }

  // What can be read of a kept change without its patch can be found, however short its row has it.
  const readable = (entry) => [...entry.querySelectorAll("summary, p, ul")].map((one) => one.textContent).join(" ").toLowerCase();

  function textOf(row, i) {
    const entry = labelOf(i)[0] === "kept" && find(`kept-${row[0]}`);
    return [row[0], words(i), row[2], row[3], row[4], row[5], row[6], entry ? readable(entry) : ""].join(" ").toLowerCase();
  }

  const wish = () => find("filter").value.trim().toLowerCase();

  function fits(i, wanted) {
    texts ??= wanted ? rows.map(textOf) : null;
    return !wanted || texts[i].includes(wanted);
  }

  // How many are left stands where the number of all stood.
  function count(element, left, wanted) {
    element.dataset.all ??= element.textContent;
    element.textContent = wanted ? `${left} of ${element.dataset.all}` : element.dataset.all;
  }

  function filter() {
    const wanted = wish(), found = new Map(labels.map((label) => [idOf(label), []])), left = new Set();
    let kept = 0, not = 0, hidden = 0;
    rows.forEach((row, i) => {
      const outcome = labelOf(i)[0], is = fits(i, wanted);
      dots[i].classList.toggle("faint", !is);
      if (is) left.add(row[0]);
      if (outcome === "baseline") return;
      if (!is) hidden++;
      else if (outcome === "kept") kept++;
      else { not++; found.get(idOf(labelOf(i))).push(i); }
    });
    for (const row of document.querySelectorAll("#as-table tbody tr")) row.hidden = !left.has(Number(row.cells[0].textContent));
    for (const entry of document.querySelectorAll("#kept details")) {
      entry.hidden = !left.has(Number(entry.id.slice("kept-".length))) && !readable(entry).includes(wanted);
    }
    for (const group of document.querySelectorAll("#rejected details")) {
      const matches = (found.get(group.id) ?? []).sort((a, b) => rows[b][0] - rows[a][0]);
      group.hidden = wanted !== "" && matches.length === 0;
      if (wanted) group.open = matches.length > 0;
      if (group.open) fill(group, matches);
      count(group.querySelector("summary .value"), matches.length, wanted);
    }
    count(document.querySelector("#kept h2 .count"), kept, wanted);
    count(document.querySelector("#rejected h2 .count"), not, wanted);
    find("matches").textContent = wanted ? `${kept} kept and ${not} not kept match; ${hidden} hidden` : "";
  }

  function setUpGroups() {
    if (!find("filter")) return;
    find("finder").hidden = false;
    let waiting = 0;
    find("filter").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
    for (const group of document.querySelectorAll("#rejected details")) {
      group.addEventListener("toggle", () => {
        if (!group.open) return;
        const wanted = wish();
        const mine = rows.map((_, i) => i).filter((i) => idOf(labelOf(i)) === group.id && fits(i, wanted));
        fill(group, mine.reverse());
      });
    }
  }

  function setUp() {
    read();
    setUpPlot();
    setUpGroups();
    const named = /^#iteration-(\d+)$/.exec(location.hash);
    const i = named ? rows.findIndex((row) => row[0] === Number(named[1])) : -1;
    if (i >= 0) choose(i, false);
  }

  // The same page as a reload would bring, with what the reader has opened left open.
  function replace(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const open = [...document.querySelectorAll("details[open]")].map((one) => one.id);
    const typed = find("filter")?.value ?? "", focused = document.activeElement?.id;
    find("report").replaceChildren(...document.adoptNode(fresh.getElementById("report")).childNodes);
    find("data").textContent = fresh.getElementById("data").textContent;
    document.title = fresh.title;
    setUp();
    for (const id of open) if (find(id)) find(id).open = true;
    if (typed && find("filter")) { find("filter").value = typed; filter(); }
    if (focused && focused !== "report") find(focused)?.focus({ preventScroll: true });
  }

  let seen = null;
  async function poll() {
    try {
      if (!document.hidden) {
        const answer = await fetch("state");
        if (!answer.ok) { find("phase").textContent = await answer.text(); return; }
        const state = await answer.json();
        find("status").textContent = state.status;
        find("status").hidden = !state.status;
        find("status").classList.toggle("at-work", state.at_work);
        find("phase").textContent = state.phase;
        if (seen !== null && seen !== state.seen) {
          const page = await fetch("./");
          if (!page.ok) return;
          replace(await page.text());
        }
        seen = state.seen;
      }
    } catch {
      find("phase").textContent = "goalseek report --serve has ended; this is the last that it showed";
      find("status").classList.remove("at-work");
    } finally {
      setTimeout(poll, POLL);
    }
  }

  setUp();
  if (document.body.hasAttribute("data-live")) poll();
  if (location.protocol === "about:") document.querySelector(".skip").remove();  // it would load the notebook there
})();
