// The page's behaviour: click, hover, keyboard, search. Text enters the page as text only, never as markup.

(function () {
  const all = JSON.parse(document.getElementById("data").textContent);
  if (!all.tree) return;
  const byId = (id) => document.getElementById(id);
  const view = byId("tree-view"), panel = byId("node"), tip = byId("tip");
  const model = new TreeModel(all.tree);
  // A small tree is shown whole, a large one down to its clusters.
  let tips = model.m <= 60 ? model.m : Math.max(12, Math.min(60, model.clusterTop.size));
  model.showTips(tips);
  const picture = new TreePicture(model, view, byId("tree-space"));

  function element(name, text, parent, attributes) {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }
  function describe(k, place) {
    place.textContent = "";
    element("h3", model.title(k), place);
    const list = element("dl", null, place);
    for (const [name, value] of model.facts(k)) { element("dt", name, list); element("dd", value, list); }
    const features = model.typical(k);
    if (features.length) {
      element("p", "Unlike its sibling in", place);
      const items = element("ul", null, place);
      for (const text of features) element("li", text, items);
    }
    const shown = model.examples(k, 4);
    if (shown.length) {
      element("p", `For example ${shown.join(", ")}${model.size[k] > 4 ? ", …" : ""}`, place);
    }
  }
  function buttons(k) {
    const does = element("div", null, panel, { class: "does" });
    const button = (text, action) => element("button", text, does, { type: "button" }).addEventListener("click", action);
    if (model.isFork(k)) {
      button(model.open[k] ? "Close" : "Open", () => { toggle(k); });
      if (model.size[k] > 2) button("Open all", () => { openAll(k); });
      if (k !== model.root) button("Only this", () => { only(k); });
    }
    if (k !== model.total - 1) button("Parent", () => { model.reveal(model.parent[k]); choose(model.parent[k]); picture.refresh(); bring(model.parent[k]); });
  }
  function choose(k) {
    picture.chosen = k;
    describe(k, panel);
    buttons(k);
  }
  function bring(k) { // scroll a node into view
    const y = picture.nodeY(k);
    if (y < view.scrollTop + 20 || y > view.scrollTop + view.clientHeight - 60) view.scrollTop = y - view.clientHeight / 2;
    picture.draw();
  }
  function toggle(k) {
    if (!model.isFork(k)) return;
    if (model.open[k]) model.collapse(k); else model.expand(k);
    choose(k);
    picture.refresh();
    bring(k);
  }
  function openAll(k) {
    const stack = [k];
    while (stack.length) {
      const next = stack.pop();
      if (!model.isFork(next)) continue;
      model.open[next] = 1;
      stack.push(...model.children(next));
    }
    choose(k);
    picture.refresh();
    bring(k);
  }
  function only(k) {
    model.root = k;
    if (!model.open[k]) model.expand(k, 12);
    byId("whole").hidden = k === model.total - 1;
    view.scrollTop = 0;
    choose(k);
    picture.refresh();
  }
  function show(k) { // wherever it is
    model.reveal(k);
    byId("whole").hidden = model.root === model.total - 1;
    picture.hits = new Set([k]);
    choose(k);
    picture.refresh();
    bring(k);
  }

  // Mouse and touch ----------------------------------------------------------------------------------------------------
  const under = (event) => {
    const item = event.target.closest ? event.target.closest(".item") : null;
    return item ? Number(item.dataset.node) : -1;
  };
  view.addEventListener("click", (event) => {
    const k = under(event);
    if (k < 0) return;
    tip.hidden = true;
    if (model.isFork(k)) toggle(k); else { choose(k); picture.draw(); }
  });
  let hovered = -1;
  view.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const k = under(event);
    if (k !== hovered && k >= 0) describe(k, tip);
    hovered = k;
    tip.hidden = k < 0;
    if (k < 0) return;
    const box = tip.getBoundingClientRect();
    const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 12 : event.clientX + 16;
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 8))}px`;
  });
  view.addEventListener("pointerleave", () => { tip.hidden = true; hovered = -1; });
  view.addEventListener("scroll", () => { tip.hidden = true; requestAnimationFrame(() => picture.draw()); });
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15);
  }, { passive: false });
  addEventListener("resize", () => picture.refresh());

  function zoom(factor) {
    const middle = (view.scrollTop + view.clientHeight / 2) / picture.rowHeight;
    picture.zoom = Math.min(4, Math.max(0.1, picture.zoom * factor));
    picture.refresh();
    view.scrollTop = middle * picture.rowHeight - view.clientHeight / 2;
    picture.draw();
  }
  byId("zoom-in").addEventListener("click", () => zoom(1.4));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.4));
  function detail(factor) {
    tips = Math.max(4, Math.min(model.m, Math.round(picture.laid.tips * factor)));
    model.showTips(tips);
    choose(model.root);
    picture.refresh();
  }
  byId("more").addEventListener("click", () => detail(2));
  byId("fewer").addEventListener("click", () => detail(0.5));
  byId("whole").addEventListener("click", () => { model.reveal(model.root); only(model.total - 1); });
  for (const button of document.querySelectorAll("button.show")) {
    button.addEventListener("click", () => {
      show(model.clusterTop.get(Number(button.dataset.cluster)));
      byId("tree").scrollIntoView();
      view.focus({ preventScroll: true });
    });
  }

  // Keyboard -----------------------------------------------------------------------------------------------------------
  view.addEventListener("keydown", (event) => {
    const { nodes } = picture.laid, k = picture.chosen, at = nodes.indexOf(k);
    let to = k;
    if (event.key === "ArrowDown") to = nodes[Math.min(nodes.length - 1, at + 1)];
    else if (event.key === "ArrowUp") to = nodes[Math.max(0, at - 1)];
    else if (event.key === "Home") to = nodes[0];
    else if (event.key === "End") to = nodes[nodes.length - 1];
    else if (event.key === "ArrowRight") {
      if (model.isFork(k) && !model.open[k]) { toggle(k); event.preventDefault(); return; }
      to = nodes[Math.min(nodes.length - 1, at + 1)];
    } else if (event.key === "ArrowLeft") {
      if (model.isFork(k) && model.open[k] && k !== model.root) { toggle(k); event.preventDefault(); return; }
      if (k !== model.root) to = model.parent[k];
    } else if (event.key === "Enter" || event.key === " ") { toggle(k); event.preventDefault(); return; }
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else return;
    event.preventDefault();
    choose(to);
    bring(to);
  });

  // Search -------------------------------------------------------------------------------------------------------------
  const search = byId("search"), found = byId("found");
  const named = model.data.rows ? model.data.rows.names : Array.from({ length: model.m }, (_, k) => model.leafName(k));
  const lower = named.map((name) => name.toLowerCase());
  if (!model.data.names && !model.data.rows) search.placeholder = model.leafName(0);
  let matches = [], active = -1;
  function lookUp() {
    const wanted = search.value.trim().toLowerCase();
    matches = [];
    found.textContent = "";
    active = -1;
    if (wanted) {
      let all = 0;
      lower.forEach((name, i) => { if (name.includes(wanted)) { all++; if (matches.length < 30) matches.push(i); } });
      matches.sort((a, b) => named[a].length - named[b].length);
      matches.forEach((i, place) => {
        const line = element("li", named[i], found, { role: "option", id: `match-${place}`, "aria-selected": "false" });
        line.addEventListener("pointerdown", (event) => { event.preventDefault(); take(place); });
      });
      if (all > matches.length) element("li", `and ${(all - matches.length).toLocaleString("en")} more`, found, { class: "none" });
      if (!matches.length) element("li", "no such name", found, { class: "none", role: "status" });
    }
    found.hidden = !wanted;
    search.setAttribute("aria-expanded", String(!found.hidden));
  }
  function mark(place) {
    active = (place + matches.length) % matches.length;
    [...found.querySelectorAll("[role=option]")].forEach((line, i) => line.setAttribute("aria-selected", String(i === active)));
    search.setAttribute("aria-activedescendant", `match-${active}`);
    found.children[active].scrollIntoView({ block: "nearest" });
  }
  function close() { found.hidden = true; search.setAttribute("aria-expanded", "false"); search.removeAttribute("aria-activedescendant"); }
  function take(place) {
    const i = matches[place];
    close();
    if (i === undefined) return;
    const leaf = model.data.rows ? model.data.rows.leaf[i] : i;
    if (leaf >= 0) show(leaf);
    view.focus({ preventScroll: true });
  }
  search.addEventListener("input", lookUp);
  search.addEventListener("focus", lookUp);
  search.addEventListener("blur", close);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" && matches.length) { mark(active + 1); event.preventDefault(); }
    else if (event.key === "ArrowUp" && matches.length) { mark(active - 1); event.preventDefault(); }
    else if (event.key === "Enter") { take(active < 0 ? 0 : active); event.preventDefault(); }
  });

  // Levels -------------------------------------------------------------------------------------------------------------
  const slider = byId("level");
  function cutAt(place) {
    const cut = all.levels.cuts[place];
    model.colour(cut.cluster);
    picture.cut = cut.level;
    byId("level-text").textContent = cut.words;
    slider.setAttribute("aria-valuetext", cut.words);
    for (const part of document.querySelectorAll("[data-level]")) part.hidden = Number(part.dataset.level) !== place;
    for (const point of document.querySelectorAll(".point[data-leaf]")) {
      const cluster = cut.cluster[Number(point.dataset.leaf)], title = point.querySelector("title");
      point.setAttribute("class", `point ${colourClass(cluster)}`);
      title.textContent = title.textContent.replace(/, cluster \d+/, `, cluster ${cluster}`);
    }
    [...document.querySelectorAll("#levels tbody tr")].forEach((line, i) => line.classList.toggle("chosen", i === place));
    choose(picture.chosen);
    picture.refresh();
  }
  if (slider) {
    slider.addEventListener("input", () => cutAt(Number(slider.value)));
    byId("level-back").addEventListener("click", () => { slider.value = all.levels.chosen; cutAt(all.levels.chosen); });
  }

  choose(model.root);
  if (slider) cutAt(all.levels.chosen); else picture.draw();
  document.documentElement.dataset.ready = "yes"; // for tests and for whoever waits for the drawing
})();
