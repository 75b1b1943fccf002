"use strict";
// The tree as columns, which of its forks are open, and where everything drawn stands. Knows nothing of the page.
// Leaves are nodes 0..m-1, forks m..2m-2, children before parents, the root last.

class TreeModel {
  constructor(data) {
    const m = data.left.length + 1, total = 2 * m - 1;
    Object.assign(this, { data, m, total, root: total - 1 });
    this.parent = new Int32Array(total).fill(-1);
    this.size = new Float64Array(total);
    this.cluster = new Int32Array(total);
    this.first = new Int32Array(total); // the first leaf below, for a name
    this.level = new Int32Array(total);
    this.open = new Uint8Array(total);
    for (let k = 0; k < m; k++) {
      this.size[k] = data.size ? data.size[k] : 1;
      this.first[k] = k;
    }
    for (let k = m; k < total; k++) {
      const a = data.left[k - m], b = data.right[k - m];
      this.parent[a] = this.parent[b] = k;
      this.size[k] = this.size[a] + this.size[b];
      this.first[k] = Math.min(this.first[a], this.first[b]);
    }
    for (let k = total - 2; k >= 0; k--) this.level[k] = this.level[this.parent[k]] + 1;
    this.features = new Map(data.features);
    this.featureNames = new Map(data.featureNames);
    this.colour(data.cluster);
  }

  // Give every leaf its cluster, and every fork whose leaves are in one cluster that one.
  colour(leafClusters) {
    for (let k = 0; k < this.m; k++) this.cluster[k] = leafClusters[k];
    for (let k = this.m; k < this.total; k++) {
      const a = this.cluster[this.data.left[k - this.m]], b = this.cluster[this.data.right[k - this.m]];
      this.cluster[k] = a === b ? a : -1;
    }
    this.order = this.openingOrder();
    this.clusterTop = new Map();
    for (let k = 0; k < this.total; k++) {
      const c = this.cluster[k];
      if (c >= 0 && (!this.clusterTop.has(c) || this.size[k] > this.size[this.clusterTop.get(c)])) this.clusterTop.set(c, k);
    }
  }

  // Forks in the order in which they open: those above the clusters, highest first, then the largest inside clusters.
  // A parent always comes before its children.
  openingOrder() {
    const forks = Array.from({ length: this.m - 1 }, (_, i) => this.m + i);
    const mixed = (k) => (this.cluster[k] < 0 ? 0 : 1);
    const rank = (k) => (this.cluster[k] < 0 ? this.height(k) : this.size[k]);
    return forks.sort((a, b) => mixed(a) - mixed(b) || rank(b) - rank(a) || b - a);
  }

  isFork(k) { return k >= this.m; }
  height(k) { return this.data.height[k - this.m]; }
  children(k) { // the larger one on top
    const a = this.data.left[k - this.m], b = this.data.right[k - this.m];
    return this.size[a] > this.size[b] || (this.size[a] === this.size[b] && a < b) ? [a, b] : [b, a];
  }
  isBelow(k, top) {
    while (k >= 0 && k < top) k = this.parent[k];
    return k === top;
  }

  // About so many tips in all.
  showTips(count) {
    this.open.fill(0);
    const inView = this.root === this.total - 1 ? this.order : this.order.filter((k) => this.isBelow(k, this.root));
    for (const k of inView.slice(0, Math.max(1, count - 1))) this.open[k] = 1;
  }
  // Open a fork, and the largest forks below it until it shows a few tips.
  expand(k, tips = 6) {
    const waiting = [k];
    for (let shown = 1; waiting.length && shown < tips; shown++) {
      waiting.sort((a, b) => this.size[a] - this.size[b]);
      const next = waiting.pop();
      this.open[next] = 1;
      for (const child of this.children(next)) if (this.isFork(child)) waiting.push(child);
    }
  }
  collapse(k) {
    const stack = [k];
    while (stack.length) {
      const next = stack.pop();
      this.open[next] = 0;
      for (const child of this.children(next)) if (this.isFork(child) && this.open[child]) stack.push(child);
    }
  }
  reveal(k) {
    if (!this.isBelow(k, this.root)) this.root = this.total - 1;
    for (let up = this.parent[k]; up >= 0; up = this.parent[up]) this.open[up] = 1;
  }

  // Drawn nodes in reading order and their places down the page, in rows.
  layout() {
    const nodes = [], row = new Float64Array(this.total).fill(-1), stack = [this.root];
    let tips = 0;
    while (stack.length) {
      const k = stack.pop();
      nodes.push(k);
      if (this.isFork(k) && this.open[k]) {
        const [a, b] = this.children(k);
        stack.push(b, a);
      } else row[k] = tips++;
    }
    for (let i = nodes.length - 1; i >= 0; i--) {
      const k = nodes[i];
      if (this.isFork(k) && this.open[k]) {
        const [a, b] = this.children(k);
        row[k] = (row[a] + row[b]) / 2;
      }
    }
    return { nodes, row, tips };
  }

  // Words ------------------------------------------------------------------------------------------------------------
  leafName(k) {
    if (this.data.names) return this.data.names[k];
    return this.data.size ? `${this.data.leafWord} ${k}` : `row ${k}`;
  }
  label(k) {
    const rows = `${this.size[k].toLocaleString("en")} rows`;
    if (!this.isFork(k) && (this.data.names || !this.data.size)) return this.leafName(k);
    if (!this.isFork(k) && this.data.rows && this.rowsOf(k).length) { // a leaf of several rows goes by the name of the first
      const more = this.size[k] - 1;
      return this.data.rows.names[this.rowsOf(k)[0]] + (more > 0 ? ` and ${more.toLocaleString("en")} more` : "");
    }
    if (!this.isFork(k)) return `${this.leafName(k)}: ${rows}`;
    if (this.data.names) return `${this.data.names[this.first[k]]} and ${(this.size[k] - 1).toLocaleString("en")} more`;
    return rows;
  }
  title(k) {
    if (k === this.total - 1) return "All rows";
    return this.isFork(k) ? `Node ${k}` : this.leafName(k);
  }
  facts(k) {
    const digits = (v) => (v === undefined || v === null ? "–" : v >= 0.0005 && v < 0.9995 ? v.toFixed(3) : v >= 0.9995 ? "1.000" : v === 0 ? "0" : v.toExponential(1));
    const list = [["rows", this.size[k].toLocaleString("en")], ["level", String(this.level[k])]];
    if (this.data.r) list.push([this.data.words[0], digits(this.isFork(k) ? this.data.r[k - this.m] : 1)]);
    if (this.data.p) list.push([this.data.words[1], digits(this.data.p[k])]);
    if (this.isFork(k)) {
      if (this.data.scale === "odds") list.push(["log odds against", this.height(k).toPrecision(4)]);
      else if (this.data.scale === "depth") list.push(["depth of the valley", `${this.height(k).toPrecision(3)} nats`], ["density falls to", `${Number((100 * Math.exp(-this.height(k))).toPrecision(2))}%`]);
      else list.push(["parted at time", (1 - this.height(k)).toPrecision(4)]);
    }
    if (this.cluster[k] >= 0) list.push(["cluster", String(this.cluster[k])]);
    return list;
  }
  typical(k) {
    const percent = (v) => `${Number((100 * v).toPrecision(3))}%`;
    const show = { share: percent, token: percent, rate: (v) => String(Number(v.toPrecision(3))) }[this.data.kind];
    return (this.features.get(k) || []).map((said) => {
      if (typeof said === "string") return said; // of a table; what the sibling has stands in brackets
      const [feature, here, there] = said;
      const name = this.featureNames.get(feature);
      if (!show) return `${name} ${here >= 0 ? "+" : "−"}${Math.abs(here).toFixed(2)} sd (sibling ${there >= 0 ? "+" : "−"}${Math.abs(there).toFixed(2)})`;
      return `${name} ${show(here)} (sibling ${show(there)})`;
    });
  }
  // Names of a few rows below, where rows have names and the node is not one of them.
  examples(k, count) {
    const { names, rows } = this.data, found = [], stack = [k];
    if (!rows && (!names || !this.isFork(k))) return found;
    while (stack.length && found.length < count) {
      const next = stack.pop();
      if (this.isFork(next)) stack.push(...this.children(next).reverse());
      else if (names) found.push(names[next]);
      else for (const row of this.rowsOf(next).slice(0, count - found.length)) found.push(rows.names[row]);
    }
    return found;
  }
  rowsOf(leaf) {
    if (!this.rowLists) {
      this.rowLists = Array.from({ length: this.m }, () => []);
      this.data.rows.leaf.forEach((k, row) => { if (k >= 0) this.rowLists[k].push(row); });
    }
    return this.rowLists[leaf];
  }
}
