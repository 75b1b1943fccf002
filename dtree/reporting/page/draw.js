// Draws the part of the tree that is in view. Branches of one colour are one path, so a page of 10,000 leaves has few elements.

const SVG = "http://www.w3.org/2000/svg";
function svg(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
}

// The colour of a cluster: one of twenty, then the same with another pattern.
function colourClass(cluster) {
  if (cluster < 0) return "k-1";
  const again = Math.floor(cluster / 20) % 4;
  return `k${cluster % 20}${again ? ` m${again}` : ""}`;
}

class TreePicture {
  constructor(model, view, space) {
    Object.assign(this, { model, view, space, zoom: 1, chosen: model.root, hits: new Set(), cut: model.data.cut });
    this.svg = svg("svg", { "aria-hidden": "false", role: "presentation" });
    space.appendChild(this.svg);
    this.refresh();
  }

  // After nodes were opened or closed, or the size or the zoom changed.
  refresh() {
    this.laid = this.model.layout();
    this.rowHeight = 22 * this.zoom;
    this.width = Math.max(260, this.view.clientWidth) * Math.max(1, this.zoom);
    this.view.style.height = `${this.laid.tips * this.rowHeight + 68}px`; // the style sheet keeps it within limits
    this.space.style.height = `${Math.max(this.view.clientHeight - 2, this.laid.tips * this.rowHeight + 64)}px`;
    this.space.style.width = this.zoom > 1 ? `${this.width}px` : "100%";
    const labels = this.rowHeight >= 11 ? Math.min(210, 0.42 * this.view.clientWidth) : 16;
    this.left = 22;
    this.right = this.width - labels;
    const heights = this.laid.nodes.filter((k) => this.model.isFork(k)).map((k) => this.stretch(this.model.height(k)));
    const { scale } = this.model.data;
    this.top = heights.reduce((a, b) => Math.max(a, b), scale === "time" ? 1e-9 : 0.3);
    this.foot = scale === "odds" ? Math.min(0, heights.reduce((a, b) => Math.min(a, b), 0)) - 0.25 : 0;
    if (scale === "depth") { // room on the left of the root and between forks of depth zero and their leaves
      this.top *= 1.04;
      this.foot = -0.08 * this.top;
    }
    this.draw();
  }

  stretch(height) { // linear near zero, logarithmic beyond
    const { scale } = this.model.data;
    if (scale === "depth") return Math.log10(1 + 10 * Math.max(0, height)); // a tenth of a nat is still to be seen
    return scale === "odds" ? Math.sign(height) * Math.log10(1 + Math.abs(height)) : height;
  }
  x(stretched) { return this.left + ((this.top - stretched) / (this.top - this.foot)) * (this.right - this.left); }
  nodeX(k) { return this.x(this.model.isFork(k) ? this.stretch(this.model.height(k)) : this.foot); }
  nodeY(k) { return 20 + (this.laid.row[k] + 0.5) * this.rowHeight; }

  draw() {
    const { model, view } = this, { nodes } = this.laid;
    const width = view.clientWidth, height = view.clientHeight;
    const above = view.scrollTop, aside = view.scrollLeft;
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.textContent = "";
    const top = above - 24, bottom = above + height + 24;
    const sheet = svg("g", { transform: `translate(${-aside} ${-above})` }, this.svg);
    const axisY = above + height - 32;
    if (model.data.scale === "odds" && this.top > 0 && this.foot < 0) svg("line", { class: "even", x1: this.x(0), x2: this.x(0), y1: above, y2: axisY }, sheet);
    if (model.data.scale === "depth") {
      const at = this.x(this.cut < 0 ? this.foot / 2 : Math.min(this.top, this.stretch(this.cut) + 0.01));
      svg("line", { class: "even", x1: at, x2: at, y1: above, y2: axisY }, sheet);
    }
    const paths = new Map();
    const add = (cluster, text) => paths.set(cluster, (paths.get(cluster) || "") + text);
    const items = [];
    for (const k of nodes) {
      const y = this.nodeY(k);
      if (y > top && y < bottom) items.push(k);
      if (!model.isFork(k) || !model.open[k]) continue;
      const x = this.nodeX(k).toFixed(1), own = model.cluster[k];
      for (const child of model.children(k)) {
        const to = this.nodeY(child), colour = (own >= 0 ? own : model.cluster[child]);
        const low = Math.max(top, Math.min(y, to)), high = Math.min(bottom, Math.max(y, to));
        const name = colourClass(colour);
        if (low <= high) add(name, `M${x} ${low.toFixed(1)}V${high.toFixed(1)}`);
        if (to > top && to < bottom) add(name, `M${x} ${to.toFixed(1)}H${this.nodeX(child).toFixed(1)}`);
      }
    }
    for (const [name, d] of paths) svg("path", { class: `branch ${name}`, d }, sheet);
    for (const k of items) this.item(sheet, k);
    this.axis(sheet, axisY, aside); // over the tree, which passes under it
    view.setAttribute("aria-activedescendant", `node-${this.chosen}`);
  }

  item(sheet, k) {
    const { model } = this, x = this.nodeX(k), y = this.nodeY(k);
    const fork = model.isFork(k), closed = fork && !model.open[k];
    const colour = colourClass(model.cluster[k]);
    const classes = `item${k === this.chosen ? " chosen" : ""}${this.hits.has(k) ? " hit" : ""}`;
    const group = svg("g", { class: classes, id: `node-${k}`, "data-node": k, role: "treeitem", "aria-level": model.level[k] + 1, "aria-label": `${model.title(k)}, ${model.size[k]} rows` }, sheet);
    if (fork) group.setAttribute("aria-expanded", String(!closed));
    if (k === this.chosen) group.setAttribute("aria-selected", "true");
    if (fork && !closed) {
      svg("circle", { class: "touch", cx: x, cy: y, r: 11 }, group);
      svg("circle", { class: `mark ${colour}`, cx: x, cy: y, r: Math.min(4.5, Math.max(1.5, this.rowHeight / 3)) }, group);
      return;
    }
    const foot = this.x(this.foot), half = 0.38 * this.rowHeight, named = this.rowHeight >= 11;
    svg("rect", { class: "back", x: foot + 2, y: y - this.rowHeight / 2, width: Math.max(8, this.width - foot - 6), height: this.rowHeight, rx: 4 }, group);
    if (closed) svg("path", { class: `mark ${colour}`, d: `M${x} ${y}L${foot} ${y - half}V${y + half}Z` }, group);
    else svg("circle", { class: `mark ${colour}`, cx: foot, cy: y, r: Math.min(3, this.rowHeight / 3) }, group);
    if (named) {
      const room = Math.max(4, Math.floor((this.width - foot - 16) / 6.6));
      const full = model.label(k);
      svg("text", { x: foot + 8, y: y + 4 }, group).textContent = full.length > room ? `${full.slice(0, room - 1)}…` : full;
    }
  }

  axis(sheet, y, aside) {
    const { scale } = this.model.data, odds = scale === "odds", depth = scale === "depth", group = svg("g", { class: "axis", "aria-hidden": "true" }, sheet);
    const marks = odds ? [0] : depth ? [0, 0.1] : [0, 0.2, 0.4, 0.6, 0.8, 1].map((t) => 1 - t);
    for (let p = 1; (odds || depth) && p < 1e9; p *= 10) marks.push(p, ...(odds ? [-p] : []));
    svg("rect", { x: 0, y, width: this.width, height: 34 }, group);
    let taken = [];
    for (const mark of marks) {
      const at = this.stretch(mark), x = this.x(at);
      if (at > this.top + 1e-9 || at < this.foot || taken.some((other) => Math.abs(other - x) < 34)) continue;
      taken.push(x);
      const text = odds || depth ? String(mark).replace("-", "−") : (1 - mark).toFixed(1);
      svg("text", { x, y: y + 13, "text-anchor": "middle" }, group).textContent = text;
    }
    const name = svg("text", { x: aside + 10, y: y + 27 }, group);
    name.textContent = odds ? "log odds against one cluster (dotted: even)" : depth ? "depth of the valley in nats (dotted: the level)" : "divergence time";
  }
}
