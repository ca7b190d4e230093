"use strict";

// The record is what package view collected; record.go describes its fields.
const R = JSON.parse(document.getElementById("record").textContent);
const $ = id => document.getElementById(id);
const text = ref => R.strings[ref || 0];

// el makes an element. Its children are elements or texts.
function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k in e && k !== "role") e[k] = v;
    else e.setAttribute(k, v);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

function bytes(n) {
  let i = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}
const micros = ns => (ns / 1e3).toFixed(ns < 1e5 ? 2 : 0) + " µs";
const count = (n, what) => n + " " + what + (n === 1 ? "" : "s");

// color reads a color of the style sheet, which depends on the color scheme.
let style = getComputedStyle(document.documentElement);
const color = name => style.getPropertyValue("--" + name);

// ---- Where the user is. The address has it, so that Back works and a view can be bookmarked. ----

const state = { tab: "graph", pass: -1, side: "after", kernel: 0, query: "" };

function go(change) {
  Object.assign(state, change);
  const at = state.tab === "graph" ? state.pass + "/" + state.side : state.tab === "kernels" ? state.kernel : "";
  const hash = "#" + state.tab + (at === "" ? "" : "/" + at);
  if (location.hash !== hash) history.pushState(null, "", hash);
  show();
}

function readHash() {
  const [tab, a, b] = location.hash.slice(1).split("/");
  if (!["graph", "kernels", "memory", "time"].includes(tab)) return;
  state.tab = tab;
  if (tab === "graph") {
    state.pass = Math.max(-1, Math.min(R.passes.length - 1, parseInt(a, 10) || 0));
    if (["before", "after", "both"].includes(b)) state.side = b;
  }
  if (tab === "kernels") state.kernel = Math.max(0, Math.min(R.kernels.length - 1, parseInt(a, 10) || 0));
}

// ---- Layout: layers by longest path, order by barycenters, positions by least squares. ----

const CHAR = 6.7, LINE = 15, GAP = { x: 18, y: 26 }, SPAN = 12; // SPAN: longer edges go past the layers directly

// layOut sets x, y of items, which have w, h and preds (indices of earlier items), and returns the edges.
function layOut(items) {
  const rank = new Int32Array(items.length), succs = items.map(() => []);
  items.forEach((it, i) => {
    for (const p of it.preds) { rank[i] = Math.max(rank[i], rank[p] + 1); succs[p].push(i); }
  });
  for (let i = items.length - 1; i >= 0; i--) { // what starts a path stands right above its first reader
    if (items[i].preds.length === 0 && succs[i].length) rank[i] = Math.min(...succs[i].map(s => rank[s])) - 1;
  }
  const layers = [], cells = [], edges = [];
  const cell = (r, w, item) => {
    const c = { r, w, item, up: [], down: [], x: 0, order: 0 };
    (layers[r] = layers[r] || []).push(c);
    cells.push(c);
    return c;
  };
  const of = items.map((it, i) => cell(rank[i], it.w, i));
  items.forEach((it, i) => {
    for (const p of it.preds) {
      const edge = { from: p, to: i, bends: [] };
      edges.push(edge);
      if (rank[i] - rank[p] > SPAN) { edge.far = true; continue; }
      let last = of[p];
      for (let r = rank[p] + 1; r < rank[i]; r++) {
        const c = cell(r, 4, -1);
        edge.bends.push(c);
        last.down.push(c); c.up.push(last);
        last = c;
      }
      last.down.push(of[i]); of[i].up.push(last);
    }
  });
  for (let r = 0; r < layers.length; r++) layers[r] = layers[r] || [];
  const number = layer => layer.forEach((c, i) => { c.order = i; });
  layers.forEach(number);
  const mean = (list, of) => { let s = 0; for (const c of list) s += of(c); return s / list.length; };
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < layers.length; i++) {
      const layer = layers[down ? i : layers.length - 1 - i];
      if (layer.length < 2) continue;
      for (const c of layer) {
        const next = down ? c.up : c.down;
        c.key = next.length ? mean(next, n => n.order) : c.order;
      }
      layer.sort((a, b) => a.key - b.key || a.order - b.order);
      number(layer);
    }
  }
  // Each layer's x are those nearest to what its neighbors ask for, in order and with gaps (isotonic regression).
  for (const layer of layers) { let x = 0; for (const c of layer) { c.x = x + c.w / 2; x += c.w + GAP.x; } }
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < layers.length; i++) {
      const layer = layers[down ? i : layers.length - 1 - i];
      const blocks = [];
      let offset = 0;
      layer.forEach((c, k) => {
        if (k) offset += (layer[k - 1].w + c.w) / 2 + GAP.x;
        c.offset = offset;
        const next = down ? c.up : c.down;
        const want = (next.length ? mean(next, n => n.x) : c.x) - offset;
        let b = { sum: want, n: 1, from: k };
        while (blocks.length && blocks[blocks.length - 1].sum / blocks[blocks.length - 1].n > b.sum / b.n) {
          const p = blocks.pop();
          b = { sum: b.sum + p.sum, n: b.n + p.n, from: p.from };
        }
        blocks.push(b);
      });
      blocks.forEach((b, k) => {
        const to = k + 1 < blocks.length ? blocks[k + 1].from : layer.length;
        for (let j = b.from; j < to; j++) layer[j].x = b.sum / b.n + layer[j].offset;
      });
    }
  }
  let y = 0;
  for (const layer of layers) {
    let h = 0;
    for (const c of layer) if (c.item >= 0) h = Math.max(h, items[c.item].h);
    for (const c of layer) c.y = y + h / 2;
    y += h + GAP.y;
  }
  of.forEach((c, i) => { items[i].x = c.x; items[i].y = c.y; });
  for (const e of edges) e.points = e.bends.map(c => [c.x, c.y]);
  return edges;
}

// ---- One drawing of a graph. ----

const HEAVY = /matmul|conv|attention|einsum|dot/;

class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.views = new Map(); // by graph: its folds, position and zoom
    this.pointers = new Map();
    canvas.addEventListener("wheel", e => {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), e.offsetX, e.offsetY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", e => {
      canvas.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, e);
      this.moved = 0;
      current = this;
    });
    canvas.addEventListener("pointermove", e => this.pointerMove(e));
    canvas.addEventListener("pointerup", e => {
      this.pointers.delete(e.pointerId);
      if (this.moved < 5) this.click(e.offsetX, e.offsetY);
    });
    canvas.addEventListener("pointercancel", e => this.pointers.delete(e.pointerId));
    canvas.addEventListener("dblclick", e => this.open());
    canvas.addEventListener("focus", () => { current = this; });
  }

  pointerMove(e) {
    const was = this.pointers.get(e.pointerId);
    if (!was) return;
    const others = [...this.pointers.values()].filter(p => p.pointerId !== e.pointerId);
    this.pointers.set(e.pointerId, e);
    this.moved += Math.abs(e.offsetX - was.offsetX) + Math.abs(e.offsetY - was.offsetY);
    if (others.length) { // two fingers
      const far = p => Math.hypot(p.offsetX - others[0].offsetX, p.offsetY - others[0].offsetY);
      this.zoom(far(e) / Math.max(1, far(was)), (e.offsetX + others[0].offsetX) / 2, (e.offsetY + others[0].offsetY) / 2);
      return;
    }
    this.view.x += e.offsetX - was.offsetX;
    this.view.y += e.offsetY - was.offsetY;
    this.draw();
  }

  // set shows a graph. marks has the nodes that the pass added or removed, drawn in the given color.
  set(graph, marks, mark) {
    this.graph = graph;
    this.nodes = R.graphs[graph].nodes;
    this.groups = R.graphs[graph].groups || [];
    this.marks = new Set(marks);
    this.mark = mark;
    if (this.users === undefined || this.usersOf !== graph) {
      this.usersOf = graph;
      this.users = this.nodes.map(() => []);
      this.nodes.forEach((n, i) => (n.a || []).forEach(a => { if (this.users[a][this.users[a].length - 1] !== i) this.users[a].push(i); }));
    }
    this.view = this.views.get(graph);
    if (!this.view) {
      this.view = { open: new Set(), selected: -1 };
      this.views.set(graph, this.view);
      this.build();
      this.fit(true);
    } else this.build();
    this.draw();
  }

  // build makes the visible items: nodes, and blocks of nodes that are folded.
  build() {
    const { nodes, groups, view } = this;
    this.items = [];
    this.home = new Int32Array(nodes.length).fill(-1); // by node: its item
    const add = it => { it.preds = []; this.items.push(it); return this.items.length - 1; };
    const embedded = i => nodes[i].l && text(nodes[i].o) !== "input";
    const wanted = i => !(nodes[i].l && !this.users[i].length && !nodes[i].e);
    let g = 0;
    for (let i = 0; i < nodes.length; i++) {
      while (g < groups.length && groups[g].starts[groups[g].starts.length - 1] <= i) g++;
      const inside = g < groups.length && groups[g].starts[0] <= i;
      if (embedded(i) && !nodes[i].e || !wanted(i)) continue;
      if (!inside || nodes[i].l) { this.home[i] = add({ kind: "node", node: i }); continue; }
      const starts = groups[g].starts;
      if (!view.open.has(g + "")) {
        this.home[i] = this.blockItem(g, -1, i, add);
        continue;
      }
      let c = 0;
      while (starts[c + 1] <= i) c++;
      if (view.open.has(g + "." + c)) this.home[i] = add({ kind: "node", node: i, group: g, copy: c });
      else this.home[i] = this.blockItem(g, c, i, add);
    }
    const seen = new Set();
    nodes.forEach((n, i) => {
      const to = this.home[i];
      if (to < 0) return;
      for (const a of n.a || []) {
        const from = this.home[a];
        if (from < 0) { (this.items[to].reads = this.items[to].reads || []).push(a); continue; }
        const key = from * nodes.length + to;
        if (from === to || seen.has(key)) continue;
        seen.add(key);
        // Inputs may come after a folded block that a node between reads; the block then still comes first.
        if (from < to) this.items[to].preds.push(from);
        else (this.items[to].late = this.items[to].late || []).push(from);
      }
    });
    for (const it of this.items) if (it.late) this.reorder = true;
    if (this.reorder) this.sortItems();
    for (const it of this.items) this.label(it);
    this.edges = layOut(this.items);
    this.below = this.items.map(() => []);
    this.edges.forEach(e => this.below[e.from].push(e.to));
  }

  // sortItems puts each item after those that it reads.
  sortItems() {
    this.reorder = false;
    const preds = this.items.map(it => it.preds.concat(it.late || [])), order = [], place = new Int32Array(preds.length).fill(-1);
    const stack = [];
    for (let i = 0; i < preds.length; i++) {
      stack.push([i, 0]);
      while (stack.length) {
        const top = stack[stack.length - 1], [at, k] = top;
        if (place[at] >= 0) { stack.pop(); continue; }
        if (k < preds[at].length) {
          top[1]++;
          const p = preds[at][k];
          if (place[p] === -1 && !stack.some(s => s[0] === p)) stack.push([p, 0]);
          continue;
        }
        place[at] = order.length;
        order.push(at);
        stack.pop();
      }
    }
    const items = order.map(i => this.items[i]);
    items.forEach((it, i) => {
      it.preds = preds[order[i]].map(p => place[p]).filter(p => p < i);
      it.late = undefined;
    });
    this.items = items;
    for (let i = 0; i < this.home.length; i++) if (this.home[i] >= 0) this.home[i] = place[this.home[i]];
  }

  blockItem(g, c, i, add) {
    const last = this.items[this.items.length - 1];
    for (let k = this.items.length - 1; k >= 0 && k > this.items.length - 40; k--) {
      const it = this.items[k];
      if (it.kind === "block" && it.group === g && it.copy === c) { it.members.push(i); return k; }
    }
    return add({ kind: "block", group: g, copy: c, members: [i] });
  }

  label(it) {
    const lines = [];
    if (it.kind === "block") {
      const g = this.groups[it.group];
      if (it.copy < 0) {
        const names = g.names;
        lines.push(names.length + " × " + count(g.size, R.graphs[this.graph].kind === "ops" ? "op" : "kernel"));
        lines.push(names[0] + " to " + names[names.length - 1]);
      } else {
        lines.push(g.names[it.copy]);
        lines.push(count(g.size, R.graphs[this.graph].kind === "ops" ? "op" : "kernel"));
      }
      it.marked = it.members.some(i => this.marks.has(i));
    } else {
      const n = this.nodes[it.node];
      lines.push(text(n.o) + (n.n ? " " + text(n.n) : ""));
      lines.push(text(n.t));
      for (const a of (it.reads || []).slice(0, 3)) lines.push("‹ " + (text(this.nodes[a].n) || text(this.nodes[a].o)));
      if (it.reads && it.reads.length > 3) lines.push("‹ " + (it.reads.length - 3) + " more");
      if (n.e) lines.push("› " + text(n.e));
      it.marked = this.marks.has(it.node);
    }
    it.lines = lines.map(s => s.length > 34 ? s.slice(0, 33) + "…" : s);
    it.w = 16 + CHAR * Math.max(...it.lines.map(s => s.length));
    it.h = 8 + LINE * it.lines.length;
  }

  size() {
    const c = this.canvas, ratio = devicePixelRatio || 1;
    const w = c.clientWidth, h = c.clientHeight;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
    }
    return [w, h, ratio];
  }

  fit(first) {
    const [w, h] = this.size();
    if (!w || !this.items.length) return;
    let l = Infinity, r = -Infinity, t = Infinity, b = -Infinity;
    for (const it of this.items) {
      l = Math.min(l, it.x - it.w / 2); r = Math.max(r, it.x + it.w / 2);
      t = Math.min(t, it.y - it.h / 2); b = Math.max(b, it.y + it.h / 2);
    }
    const whole = Math.min(w / (r - l + 40), h / (b - t + 40));
    const v = this.view;
    v.k = Math.min(1.2, first ? Math.max(whole, Math.min(0.7, w / (r - l + 40)), 0.3) : whole); // readable at first
    v.x = w / 2 - v.k * (l + r) / 2;
    v.y = v.k * (b - t + 40) < h ? h / 2 - v.k * (t + b) / 2 : 20 - v.k * t;
  }

  zoom(by, x, y) {
    const v = this.view, k = Math.max(0.02, Math.min(4, v.k * by));
    v.x = x - (x - v.x) * k / v.k;
    v.y = y - (y - v.y) * k / v.k;
    v.k = k;
    this.draw();
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    const [w, h, ratio] = this.size();
    if (!w || !this.view) return;
    if (!this.view.k) this.fit(true);
    const ctx = this.canvas.getContext("2d"), v = this.view;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = color("back");
    ctx.fillRect(0, 0, w, h);
    ctx.translate(v.x, v.y);
    ctx.scale(v.k, v.k);
    const top = -v.y / v.k, bottom = (h - v.y) / v.k, left = -v.x / v.k, right = (w - v.x) / v.k;
    const chosen = v.selected >= 0 ? this.home[v.selected] : this.selectedItem;
    ctx.lineWidth = Math.max(1, 0.6 / v.k);
    for (const pass of [0, 1]) {
      ctx.strokeStyle = pass ? color("accent") : color("edge");
      ctx.beginPath();
      for (const e of this.edges) {
        const lit = e.from === chosen || e.to === chosen;
        if (lit !== !!pass) continue;
        const a = this.items[e.from], b = this.items[e.to];
        if (a.y > bottom || b.y < top) continue;
        let x = a.x, y = a.y + a.h / 2;
        if (e.far && !lit) { // only its ends, or long edges would hide the graph
          ctx.moveTo(x, y); ctx.lineTo(x + 5, y + 12);
          ctx.moveTo(b.x, b.y - b.h / 2); ctx.lineTo(b.x - 5, b.y - b.h / 2 - 12);
          continue;
        }
        ctx.moveTo(x, y);
        for (const [px, py] of [...e.points, [b.x, b.y - b.h / 2]]) {
          const m = (y + py) / 2;
          ctx.bezierCurveTo(x, m, px, m, px, py);
          x = px; y = py;
        }
      }
      ctx.stroke();
    }
    const small = v.k < 0.35;
    ctx.textBaseline = "top";
    this.items.forEach((it, i) => {
      if (it.y - it.h / 2 > bottom || it.y + it.h / 2 < top || it.x - it.w / 2 > right || it.x + it.w / 2 < left) return;
      const x = it.x - it.w / 2, y = it.y - it.h / 2;
      const n = it.kind === "node" ? this.nodes[it.node] : null;
      ctx.fillStyle = it.kind === "block" ? color("block") : HEAVY.test(text(n.o)) ? color("heavy") : color("box");
      ctx.strokeStyle = i === chosen ? color("accent") : it.marked ? color(this.mark) : color("edge");
      ctx.lineWidth = (i === chosen || it.marked ? 2.5 : 1) * Math.max(1, 0.5 / v.k);
      ctx.setLineDash(n && text(n.k) === "inline" ? [4, 3] : []);
      ctx.beginPath();
      ctx.roundRect(x, y, it.w, it.h, it.kind === "block" ? 2 : 5);
      ctx.fill();
      if (it.marked) { ctx.fillStyle = color(this.mark + "-soft"); ctx.fill(); }
      ctx.stroke();
      ctx.setLineDash([]);
      if (small) return;
      it.lines.forEach((s, k) => {
        ctx.font = (k ? "" : "600 ") + "11px ui-monospace, Menlo, Consolas, monospace";
        ctx.fillStyle = k ? color("dim") : color("fore");
        ctx.fillText(s, x + 8, y + 5 + k * LINE);
      });
    });
  }

  at(x, y) {
    const v = this.view, px = (x - v.x) / v.k, py = (y - v.y) / v.k;
    return this.items.findIndex(it => Math.abs(it.x - px) <= it.w / 2 && Math.abs(it.y - py) <= it.h / 2);
  }

  click(x, y) {
    const i = this.at(x, y);
    if (i < 0) return this.select(-1);
    this.pick(i);
    if (this.items[i].kind === "block") this.open();
  }

  // pick selects an item.
  pick(i) {
    const it = this.items[i];
    this.selectedItem = i;
    this.view.selected = it.kind === "node" ? it.node : -1;
    this.draw();
    showDetails(this, it);
  }

  // select selects a node; it unfolds the blocks that hide it, and moves it into sight.
  select(node) {
    this.view.selected = node;
    this.selectedItem = -1;
    if (node < 0) { this.draw(); return showDetails(this, null); }
    this.groups.forEach((g, k) => {
      const s = g.starts;
      if (node < s[0] || node >= s[s.length - 1] || this.nodes[node].l) return;
      let c = 0;
      while (s[c + 1] <= node) c++;
      for (const key of [k + "", k + "." + c]) if (!this.view.open.has(key)) { this.view.open.add(key); this.stale = true; }
    });
    if (this.stale) { this.stale = false; this.build(); }
    let i = this.home[node];
    if (i < 0 && this.users[node].length) i = this.home[this.users[node][0]]; // a weight is shown by its reader
    if (i >= 0) { this.selectedItem = i; this.center(i); }
    this.draw();
    showDetails(this, i >= 0 && this.home[node] >= 0 ? this.items[i] : { kind: "node", node });
  }

  center(i) {
    const [w, h] = this.size(), v = this.view, it = this.items[i];
    if (v.k < 0.5) v.k = 0.8;
    v.x = w / 2 - v.k * it.x;
    v.y = h / 2 - v.k * it.y;
  }

  // refold builds the items again, with an item where it was.
  refold(node) {
    const v = this.view, old = this.items[this.home[node]], sx = old ? v.x + v.k * old.x : 0, sy = old ? v.y + v.k * (old.y - old.h / 2) : 0;
    this.build();
    const it = this.items[this.home[node]];
    if (old && it) { v.x = sx - v.k * it.x; v.y = sy - v.k * (it.y - it.h / 2); }
    this.pick(this.home[node]);
  }

  open() {
    const it = this.items[this.selectedItem];
    if (!it) return;
    if (it.kind === "block") {
      this.view.open.add(it.group + (it.copy < 0 ? "" : "." + it.copy));
      return this.refold(it.members[0]);
    }
    const k = kernelOf(this.graph, it.node);
    if (k >= 0) go({ tab: "kernels", kernel: k });
  }

  close() {
    const it = this.items[this.selectedItem];
    if (!it || it.group === undefined) return;
    const node = it.kind === "node" ? it.node : it.members[0];
    if (it.kind === "node") this.view.open.delete(it.group + "." + it.copy);
    else this.view.open.delete(it.group + "");
    this.refold(node);
  }

  all(open) {
    this.view.open.clear();
    if (open) this.groups.forEach((g, k) => {
      this.view.open.add(k + "");
      g.names.forEach((_, c) => this.view.open.add(k + "." + c));
    });
    this.selectedItem = -1;
    this.build();
    this.fit(true);
    this.draw();
  }

  step(key) {
    if (!this.items[this.selectedItem]) return this.pick(0), this.center(0), this.draw();
    const at = this.selectedItem, it = this.items[at];
    let next = [];
    if (key === "ArrowUp") next = it.preds;
    else if (key === "ArrowDown") next = this.below[at];
    else {
      const right = key === "ArrowRight";
      next = this.items.map((o, i) => i).filter(i => Math.abs(this.items[i].y - it.y) < 1 && (right ? this.items[i].x > it.x : this.items[i].x < it.x));
    }
    if (!next.length) return;
    const best = next.reduce((a, b) => Math.abs(this.items[b].x - it.x) < Math.abs(this.items[a].x - it.x) ? b : a);
    this.pick(best);
    this.center(best);
    this.draw();
  }
}

const drawings = { before: new Drawing($("canvas-before")), after: new Drawing($("canvas-after")) };
let current = drawings.after;

// lastOps is the last graph of ops, whose nodes kernels name.
const lastOps = R.passes.reduce((at, p) => R.graphs[p.after].kind === "ops" ? p.after : at, 0);

// kernelOf returns the kernel of a node, or -1.
function kernelOf(graph, node) {
  const step = R.graphs[graph].nodes[node].s;
  if (step) return step - 1;
  if (graph !== lastOps) return -1;
  let k = R.kernels.findIndex(k => (k.stored || []).includes(node));
  if (k < 0) k = R.kernels.findIndex(k => (k.nodes || []).includes(node));
  return k;
}

// ---- The graph. ----

function graphs() {
  const p = R.passes[state.pass];
  return p ? [p.before, p.after] : [0, 0];
}

function showGraph() {
  const p = R.passes[state.pass], [before, after] = graphs();
  $("pass-title").textContent = p ? p.name + ": " + p.why : "The graph, before all passes";
  for (const side of ["before", "after", "both"]) $(side).setAttribute("aria-pressed", state.side === side);
  $("canvas-before").hidden = state.side === "after";
  $("canvas-after").hidden = state.side === "before";
  if (state.side !== "after") drawings.before.set(before, p && p.removed || [], "gone");
  if (state.side !== "before") drawings.after.set(after, p && p.added || [], "add");
  if (state.side !== "both") current = drawings[state.side];
  [...$("passes").children].forEach(e => e.setAttribute("aria-selected", Number(e.dataset.pass) === state.pass));
  const chosen = $("passes").querySelector("[aria-selected=true]");
  if (chosen) chosen.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (current.view.selected >= 0) current.select(current.view.selected);
  else showDetails(current, null);
}

function listPasses() {
  const row = (i, name, note, same) => el("div", { role: "option", "data-pass": i, className: same ? "same" : "",
    onclick: () => go({ pass: i }) }, name, " ", el("small", {}, note));
  $("passes").append(row(-1, "the graph", "as given", false), ...R.passes.map((p, i) => {
    const diff = (p.added || []).length || (p.removed || []).length ?
      `+${(p.added || []).length} −${(p.removed || []).length}` : p.changed ? "changed" : "no change";
    return row(i, p.name, diff, !p.changed);
  }));
}

// line is a node as a line of text.
function line(nodes, i) {
  const n = nodes[i];
  return `%${i} = ${text(n.o)}${n.n ? " " + text(n.n) : ""} ${(n.a || []).map(a => "%" + a).join(", ")}${n.x ? " {" + text(n.x) + "}" : ""} : ${text(n.t)}`;
}

function link(drawing, i) {
  return el("a", { tabIndex: 0, onclick: () => drawing.select(i), onkeydown: e => { if (e.key === "Enter") drawing.select(i); } },
    line(drawing.nodes, i));
}

const listed = 200;

function listOf(drawing, ids, className) {
  const ul = el("ul", { className: "mono " + (className || "") }, ...ids.slice(0, listed).map(i => el("li", {}, link(drawing, i))));
  if (ids.length > listed) ul.append(el("li", {}, `and ${ids.length - listed} more`));
  return ul;
}

// showDetails describes the selected item, or the pass if there is none.
function showDetails(d, it) {
  const out = $("details");
  out.replaceChildren();
  if (state.query && !it) return showMatches(d);
  if (it && it.kind === "block") {
    const g = d.groups[it.group];
    out.append(el("h2", {}, it.copy < 0 ? `${g.names.length} copies of ${g.size} nodes` : g.names[it.copy]),
      el("button", { onclick: () => d.open() }, "Unfold"), it.copy >= 0 ? el("button", { onclick: () => d.close() }, "Fold all copies") : null,
      listOf(d, it.members));
    return;
  }
  if (it) {
    const n = d.nodes[it.node], dl = el("dl", {});
    const add = (k, v) => { if (v) dl.append(el("dt", {}, k), el("dd", { className: "mono" }, v)); };
    add("type", text(n.t)); add("attributes", text(n.x)); add("made at", text(n.p)); add("is", text(n.e));
    add("kernel", text(n.k)); add("why", text(n.w)); if (n.d) add("dead", "no output or state needs it");
    out.append(el("h2", {}, `%${it.node} ${text(n.o)} ${text(n.n)}`), dl);
    const k = kernelOf(d.graph, it.node);
    if (k >= 0) out.append(el("button", { onclick: () => go({ tab: "kernels", kernel: k }) }, `Kernel ${k} ${R.kernels[k].name}`));
    if (n.b) out.append(el("button", { onclick: () => { d.set(n.b, [], "add"); showDetails(d, null); } }, "The loop's body"));
    if (n.a) out.append(el("h2", {}, "reads"), listOf(d, n.a));
    if (d.users[it.node].length) out.append(el("h2", {}, "is read by"), listOf(d, d.users[it.node]));
    if (it.group !== undefined) out.append(el("button", { onclick: () => d.close() }, "Fold this block"));
    return;
  }
  const p = R.passes[state.pass];
  const nodes = d.nodes.filter(n => !n.l).length, what = R.graphs[d.graph].kind === "ops" ? "op" : "kernel";
  out.append(el("p", {}, `${count(nodes, what)}, ${count(d.groups.length, "repeated block")}.` +
    (p ? ` The pass took ${(p.ns / 1e6).toFixed(1)} ms.` : "")));
  if (!p) return;
  if (!p.changed) out.append(el("p", {}, "The pass changed nothing."));
  const [before, after] = graphs();
  const side = (name, ids, graph) => {
    if (!ids || !ids.length) return;
    const list = el("ul", { className: "mono " + (name === "added" ? "plus" : "minus") });
    for (const i of ids.slice(0, listed)) {
      const jump = () => { const s = name === "added" ? "after" : "before"; go({ side: state.side === "both" ? "both" : s }); drawings[s].select(i); };
      list.append(el("li", {}, el("a", { tabIndex: 0, onclick: jump, onkeydown: e => { if (e.key === "Enter") jump(); } }, line(R.graphs[graph].nodes, i))));
    }
    if (ids.length > listed) list.append(el("li", {}, `and ${ids.length - listed} more`));
    out.append(el("h2", {}, `${ids.length} ${name}`), list);
  };
  side("removed", p.removed, before);
  side("added", p.added, after);
}

// ---- Search. ----

let matches = [], matchAt = -1;

function matching(d) {
  const q = state.query.toLowerCase();
  const ids = [];
  d.nodes.forEach((n, i) => {
    if (("%" + i) === q || [n.o, n.n, n.t, n.x, n.p, n.e, n.k].some(r => r && text(r).toLowerCase().includes(q))) ids.push(i);
  });
  return ids;
}

function showMatches(d) {
  $("details").append(el("h2", {}, count(matches.length, "match").replace("matchs", "matches")), listOf(d, matches));
}

function search() {
  state.query = $("search").value.trim();
  matchAt = -1;
  if (state.tab === "graph") {
    matches = state.query ? matching(current) : [];
    current.view.selected = -1;
    current.selectedItem = -1;
    showDetails(current, null);
    current.draw();
  } else if (state.tab === "kernels") filterKernels();
  else if (state.tab === "memory") listBuffers();
  else listSpans();
}

// ---- Kernels. ----

function listKernels() {
  $("kernel-list").append(...R.kernels.map((k, i) => el("div", { role: "option", "data-kernel": i, onclick: () => go({ kernel: i }) },
    `${i} ${k.name} `, el("small", {}, (k.price ? "≈ " + micros(k.price) : "") + (k.once ? ", once" : "")))));
}

function filterKernels() {
  const q = state.query.toLowerCase();
  [...$("kernel-list").children].forEach((e, i) => {
    const k = R.kernels[i];
    e.hidden = !!q && ![k.name, k.family, k.schedule, ...k.ops, ...k.binds.map(b => R.buffers[b.buffer].name)].some(s => s.toLowerCase().includes(q));
  });
}

function decisionsTable(ids) {
  const table = el("table", {}, el("tr", {}, ...["rule", "kernel", "proposal", "before", "after", "gain", "choice"].map((h, i) => el("th", { className: i > 2 && i < 6 ? "n" : "" }, h))));
  for (const i of ids) {
    const d = R.decisions[i], priced = d.before > 0;
    let choice = d.taken ? "taken" : "left";
    if (d.note) choice += ": " + d.note;
    else if (!d.taken && priced && d.before > d.after && d.before <= Math.max(d.margin || 1, 1) * d.after)
      choice += `: less than ${(d.margin || 1).toFixed(2)} times as fast`;
    table.append(el("tr", { className: d.taken ? "taken" : "" }, el("td", {}, d.rule), el("td", {}, d.kernel), el("td", {}, d.what),
      el("td", { className: "n" }, priced ? micros(d.before) : ""), el("td", { className: "n" }, priced ? micros(d.after) : ""),
      el("td", { className: "n" }, priced ? micros(d.before - d.after) : ""), el("td", {}, choice)));
  }
  return el("div", { className: "wide" }, table);
}

function showKernel() {
  const out = $("kernel"), k = R.kernels[state.kernel];
  [...$("kernel-list").children].forEach((e, i) => e.setAttribute("aria-selected", i === state.kernel));
  const chosen = $("kernel-list").children[state.kernel];
  if (chosen) chosen.scrollIntoView({ block: "nearest" });
  if (!k) return out.replaceChildren(el("p", {}, "The program has no kernels."));
  const sh = R.shaders[k.shader];
  const dl = el("dl", {});
  const add = (name, v) => { if (v) dl.append(el("dt", {}, name), el("dd", {}, v)); };
  add("family", k.family);
  add("schedule", k.schedule);
  add("why", k.reason);
  add("workgroups", k.grid);
  add("expected", k.price ? micros(k.price) : "");
  add("work", `${k.flops.toLocaleString("en")} operations, ${bytes(k.moved)} moved`);
  add("runs", k.once ? "once, when the program is loaded" : k.barrier ? "after a barrier" : "with the kernel before it");
  const ops = el("p", {}, ...k.ops.map((op, i) => el("span", { className: "chip", role: "button", tabIndex: 0,
    onclick: e => light(op, e.target), onkeydown: e => { if (e.key === "Enter") light(op, e.target); } }, op)));
  const nodes = k.nodes && k.nodes.length ? el("details", {}, el("summary", {}, `${count(k.nodes.length, "op")} of the graph`),
    el("ul", { className: "mono" }, ...k.nodes.map(i => {
      const jump = () => { go({ tab: "graph", pass: R.passes.findIndex(p => p.after === lastOps), side: "after" }); drawings.after.select(i); };
      return el("li", {}, el("a", { tabIndex: 0, onclick: jump, onkeydown: e => { if (e.key === "Enter") jump(); } },
        line(R.graphs[lastOps].nodes, i) + ((k.stored || []).includes(i) ? " (stored)" : "")));
    }))) : null;
  const binds = el("table", {}, el("tr", {}, ...["binding", "buffer", "kind", "type", "bytes"].map((h, i) => el("th", { className: i === 4 ? "n" : "" }, h))),
    ...k.binds.map((b, i) => {
      const buf = R.buffers[b.buffer];
      return el("tr", {}, el("td", {}, i + (b.write ? b.read ? " read, write" : " write" : " read")), el("td", {}, buf.name), el("td", {}, buf.kind),
        el("td", { className: "mono" }, text(buf.type)), el("td", { className: "n" }, bytes(buf.bytes)));
    }));
  out.replaceChildren(el("h2", {}, `Kernel ${state.kernel}: ${k.name}`), ops, dl, nodes,
    el("h2", {}, "Buffers"), el("div", { className: "wide" }, binds),
    el("h2", {}, "Decisions"),
    (k.decisions || []).length ? decisionsTable(k.decisions) : el("p", { className: "dim" }, "No rule proposed another kernel for this one."),
    el("details", {}, el("summary", {}, "Before anything is decided about the device"), el("pre", {}, k.text)),
    el("h2", {}, `GLSL: ${sh ? sh.name : "none"}`), sh ? glsl(sh) : null);
}

function glsl(sh) {
  const rows = sh.source.replace(/\n$/, "").split("\n").map((s, i) => el("tr", { "data-ops": text(sh.lines[i]) },
    el("td", {}, String(i + 1)), el("td", { title: text(sh.lines[i]) }, text(sh.lines[i])), el("td", {}, s)));
  return el("div", { className: "glsl mono", id: "glsl", tabIndex: 0 }, el("table", {}, ...rows));
}

// light marks the lines of an op.
function light(op, chip) {
  const on = chip.getAttribute("aria-pressed") !== "true";
  for (const c of chip.parentNode.children) c.setAttribute("aria-pressed", c === chip && on);
  let first = null;
  for (const row of $("glsl").querySelectorAll("tr")) {
    const lit = on && row.dataset.ops.split(/[:,] /).includes(op);
    row.classList.toggle("lit", lit);
    if (lit) first = first || row;
  }
  if (first) first.scrollIntoView({ block: "center" });
}

// ---- Memory. ----

const hue = i => `hsl(${(i * 67) % 360} 55% 55%)`;
let arena = null;

function showMemory() {
  const kinds = {};
  for (const b of R.buffers) kinds[b.kind] = (kinds[b.kind] || 0) + b.bytes;
  delete kinds.temp;
  const steps = R.kernels.length, live = new Float64Array(steps);
  const temps = R.buffers.filter(b => b.kind === "temp" && b.first >= 0);
  for (const b of temps) for (let i = b.first; i <= b.last; i++) live[i] += b.bytes;
  const peak = live.reduce((a, b) => Math.max(a, b), 0);
  $("memory-sum").textContent = `Arena ${bytes(R.arena)} for temporaries, ${bytes(R.apart)} without sharing, at most ${bytes(peak)} in use at once. ` +
    Object.entries(kinds).map(([k, n]) => `${k} ${bytes(n)}`).join(", ") + ".";
  arena = { temps, live, steps, peak };
  paintArena(-1);
  listBuffers();
}

function surface(canvas, height) {
  const ratio = devicePixelRatio || 1;
  if (height) canvas.style.height = height + "px";
  const w = canvas.clientWidth, h = canvas.clientHeight;
  canvas.width = Math.round(w * ratio);
  canvas.height = Math.round(h * ratio);
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = color("back");
  ctx.fillRect(0, 0, w, h);
  ctx.font = "11px system-ui, sans-serif";
  return [ctx, w, h];
}

function paintArena(chosen) {
  const [ctx, w, h] = surface($("arena"));
  const { temps, live, steps } = arena, full = Math.max(R.arena, 1);
  const low = h - 16;
  arena.x = i => 4 + (w - 8) * i / Math.max(steps, 1);
  arena.y = b => low - (low - 4) * b / full;
  temps.forEach((b, i) => {
    ctx.fillStyle = hue(i);
    ctx.globalAlpha = i === chosen ? 1 : 0.55;
    const x = arena.x(b.first), y = arena.y(b.offset + b.bytes);
    ctx.fillRect(x, y, Math.max(1, arena.x(b.last + 1) - x), Math.max(1, arena.y(b.offset) - y));
  });
  ctx.globalAlpha = 1;
  ctx.strokeStyle = color("fore");
  ctx.beginPath();
  live.forEach((n, i) => { ctx.lineTo(arena.x(i), arena.y(n)); ctx.lineTo(arena.x(i + 1), arena.y(n)); });
  ctx.stroke();
  ctx.fillStyle = color("dim");
  ctx.fillText(`step 0`, 4, h - 4);
  ctx.textAlign = "right";
  ctx.fillText(`step ${Math.max(0, steps - 1)}`, w - 4, h - 4);
  ctx.textAlign = "left";
  ctx.fillText(bytes(R.arena), 6, 14);
}

$("arena").addEventListener("pointermove", e => {
  if (!arena) return;
  const i = arena.temps.findIndex(b => e.offsetX >= arena.x(b.first) && e.offsetX < arena.x(b.last + 1) &&
    e.offsetY >= arena.y(b.offset + b.bytes) && e.offsetY <= arena.y(b.offset));
  const step = Math.floor(e.offsetX / $("arena").clientWidth * arena.steps);
  const at = R.kernels[step] ? `step ${step} ${R.kernels[step].name}, ${bytes(arena.live[step])} in use` : "";
  const b = arena.temps[i];
  $("arena-note").textContent = b ? `${b.name} ${text(b.type)}: ${bytes(b.bytes)} at ${b.offset}, steps ${b.first} to ${b.last}; ${at}` : at;
  paintArena(i);
});

function listBuffers() {
  const q = state.query.toLowerCase();
  const list = R.buffers.map((b, i) => [b, i]).filter(([b]) => !q || [b.name, b.kind, text(b.type)].some(s => s.toLowerCase().includes(q)))
    .sort((a, b) => b[0].bytes - a[0].bytes);
  const table = el("table", {}, el("tr", {}, ...["buffer", "kind", "type", "bytes", "offset", "steps"].map((h, i) => el("th", { className: i > 2 ? "n" : "" }, h))),
    ...list.slice(0, 300).map(([b]) => el("tr", {}, el("td", {}, b.name), el("td", {}, b.kind), el("td", { className: "mono" }, text(b.type)),
      el("td", { className: "n" }, bytes(b.bytes)), el("td", { className: "n" }, b.kind === "temp" ? String(b.offset || 0) : ""),
      el("td", { className: "n" }, b.first < 0 ? "none" : `${b.first} to ${b.last}`))));
  $("buffers").replaceChildren(el("div", { className: "wide" }, table), list.length > 300 ? el("p", {}, `and ${list.length - 300} more`) : "");
}

// ---- Time: runs below each other, all on one scale, each from its own start. ----

let lanes = null;

function showTime() {
  if (!R.runs.length) {
    $("lanes").hidden = true;
    $("time-sum").textContent = "No run was given. Trace one or two runs, and name them: " +
      "vkc run GRAPH --input … --trace A.json, then vkc view GRAPH --trace A.json --trace B.json. " +
      (R.kernels.some(k => k.price) ? `The kernels are expected to take ${micros(R.kernels.reduce((s, k) => s + (k.once ? 0 : k.price || 0), 0))} together, with all symbols at their bounds.` : "");
    return;
  }
  const starts = R.runs.map(r => Math.min(...r.lanes.flatMap(l => l.spans.map(s => s.start))));
  const long = Math.max(...R.runs.map((r, i) => Math.max(...r.lanes.flatMap(l => l.spans.map(s => s.start + s.took))) - starts[i]));
  if (!lanes) lanes = { from: 0, to: long };
  Object.assign(lanes, { starts, long, rows: [] });
  R.runs.forEach((r, i) => r.lanes.forEach(l => {
    // Spans that contain others are drawn thinner, above them.
    const spans = l.spans.slice().sort((a, b) => a.start - b.start || b.took - a.took);
    const ends = [];
    const placed = spans.map(s => {
      let depth = ends.findIndex(e => e <= s.start + 1e-9);
      if (depth < 0) depth = ends.length;
      ends[depth] = s.start + s.took;
      return [s, depth];
    });
    lanes.rows.push({ run: i, name: `${String.fromCharCode(65 + i)} ${l.name}`, placed, depth: Math.max(1, ends.length) });
  }));
  $("time-sum").textContent = R.runs.map((r, i) => `${String.fromCharCode(65 + i)}: ${r.name || "run"} (${r.file})`).join(", ") + ". The wheel zooms, dragging moves.";
  paintLanes();
  listSpans();
}

function paintLanes() {
  const rowHeight = row => 18 + Math.min(row.depth, 6) * 16;
  const [ctx, w, h] = surface($("lanes"), 20 + lanes.rows.reduce((s, r) => s + rowHeight(r), 0));
  lanes.x = t => (t - lanes.from) / (lanes.to - lanes.from) * w;
  lanes.hits = [];
  let y = 0;
  const names = new Map();
  for (const row of lanes.rows) {
    ctx.fillStyle = color("dim");
    ctx.fillText(row.name, 4, y + 12);
    for (const [s, depth] of row.placed) {
      const t = s.start - lanes.starts[row.run], x = lanes.x(t), x2 = Math.max(x + 1, lanes.x(t + s.took));
      if (x2 < 0 || x > w) continue;
      if (!names.has(s.name)) names.set(s.name, names.size);
      const top = y + 16 + Math.min(depth, 5) * 16;
      ctx.fillStyle = hue(names.get(s.name));
      ctx.fillRect(x, top, x2 - x - 0.5, 14);
      if (x2 - x > 40) {
        ctx.fillStyle = "#000";
        ctx.fillText(s.name.slice(0, Math.floor((x2 - Math.max(x, 0)) / 7)), Math.max(x, 0) + 3, top + 11);
      }
      lanes.hits.push([x, x2, top, top + 14, s, row]);
    }
    y += rowHeight(row);
  }
  ctx.fillStyle = color("dim");
  ctx.fillText(lanes.from.toFixed(1) + " µs", 4, h - 5);
  ctx.textAlign = "right";
  ctx.fillText(lanes.to.toFixed(1) + " µs", w - 4, h - 5);
  ctx.textAlign = "left";
}

$("lanes").addEventListener("wheel", e => {
  if (!lanes) return;
  e.preventDefault();
  const at = lanes.from + e.offsetX / $("lanes").clientWidth * (lanes.to - lanes.from);
  const by = Math.exp(e.deltaY * 0.0015), span = Math.min(lanes.long, Math.max(lanes.long / 1e5, (lanes.to - lanes.from) * by));
  const share = (at - lanes.from) / (lanes.to - lanes.from);
  lanes.from = Math.max(0, Math.min(lanes.long - span, at - share * span));
  lanes.to = lanes.from + span;
  paintLanes();
}, { passive: false });
$("lanes").addEventListener("pointermove", e => {
  if (!lanes) return;
  if (e.buttons & 1) {
    const by = -e.movementX / $("lanes").clientWidth * (lanes.to - lanes.from);
    const move = Math.max(-lanes.from, Math.min(lanes.long - lanes.to, by));
    lanes.from += move;
    lanes.to += move;
    return paintLanes();
  }
  const hit = lanes.hits.find(([x, x2, y, y2]) => e.offsetX >= x && e.offsetX <= x2 && e.offsetY >= y && e.offsetY <= y2);
  if (!hit) return;
  const s = hit[4], a = s.args || {};
  $("span-note").textContent = `${hit[5].name}: ${s.name}, ${s.took.toFixed(2)} µs at ${(s.start - lanes.starts[hit[5].run]).toFixed(2)}` +
    (a.schedule ? `; ${a.schedule}` : "") + (a.ops ? `; ${a.ops.join(", ")}` : "");
});

// listSpans compares the runs by name: the sum of the times of the spans with that name.
function listSpans() {
  if (!R.runs.length) return;
  const sums = new Map(), q = state.query.toLowerCase();
  R.runs.forEach((r, i) => r.lanes.forEach(l => l.spans.forEach(s => {
    const key = l.name.replace(/ .*/, "") + "\0" + s.name;
    if (!sums.has(key)) sums.set(key, R.runs.map(() => [0, 0]));
    const sum = sums.get(key)[i];
    sum[0]++;
    sum[1] += s.took;
  })));
  const rows = [...sums].filter(([k]) => !q || k.toLowerCase().includes(q)).sort((a, b) => Math.max(...b[1].map(s => s[1])) - Math.max(...a[1].map(s => s[1])));
  const two = R.runs.length === 2;
  $("spans").replaceChildren(el("div", { className: "wide" }, el("table", {},
    el("tr", {}, el("th", {}, "where"), el("th", {}, "what"), ...R.runs.map((r, i) => el("th", { className: "n" }, String.fromCharCode(65 + i))), two ? el("th", { className: "n" }, "B / A") : null),
    ...rows.slice(0, 300).map(([k, list]) => {
      const [where, name] = k.split("\0");
      return el("tr", {}, el("td", {}, where), el("td", {}, name), ...list.map(([n, t]) => el("td", { className: "n" }, n ? `${t.toFixed(1)} µs` + (n > 1 ? ` in ${n}` : "") : "")),
        two ? el("td", { className: "n" }, list[0][1] && list[1][1] ? (list[1][1] / list[0][1]).toFixed(2) : "") : null);
    }))));
}

// ---- All together. ----

function show() {
  for (const tab of ["graph", "kernels", "memory", "time"]) {
    $(tab).hidden = state.tab !== tab;
    $("tab-" + tab).setAttribute("aria-selected", state.tab === tab);
  }
  ({ graph: showGraph, kernels: showKernel, memory: showMemory, time: showTime })[state.tab]();
}

function zoomBy(by) { const c = current.canvas; current.zoom(by, c.clientWidth / 2, c.clientHeight / 2); }

function key(e) {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target === $("search")) {
    if (e.key === "Escape") { $("search").value = ""; search(); $("search").blur(); }
    if (e.key === "Enter" && state.tab === "graph" && matches.length) {
      matchAt = (matchAt + (e.shiftKey ? matches.length - 1 : 1)) % matches.length;
      current.select(matches[matchAt]);
    }
    return;
  }
  const tabs = ["graph", "kernels", "memory", "time"], inGraph = state.tab === "graph";
  const turn = by => inGraph ? go({ pass: Math.max(-1, Math.min(R.passes.length - 1, state.pass + by)) }) :
    state.tab === "kernels" && go({ kernel: Math.max(0, Math.min(R.kernels.length - 1, state.kernel + by)) });
  const inList = e.target.classList && e.target.classList.contains("side");
  if (e.key >= "1" && e.key <= "4") go({ tab: tabs[e.key - 1] });
  else if (e.key === "/") $("search").focus();
  else if (e.key === "?") $("help").showModal();
  else if (e.key === "[" || inList && e.key === "ArrowUp") turn(-1);
  else if (e.key === "]" || inList && e.key === "ArrowDown") turn(1);
  else if (!inGraph || e.target.closest("aside, .bar, header")) return;
  else if (e.key.startsWith("Arrow")) current.step(e.key);
  else if (e.key === "b") go({ side: { before: "after", after: "both", both: "before" }[state.side] });
  else if (e.key === "Enter") current.open();
  else if (e.key === "Backspace") current.close();
  else if (e.key === "+" || e.key === "=") zoomBy(1.25);
  else if (e.key === "-") zoomBy(0.8);
  else if (e.key === "0") { current.fit(false); current.draw(); }
  else if (e.key === "Escape") current.select(-1);
  else return;
  e.preventDefault();
}

$("title").append(R.title, " ", el("small", {}, "for " + R.target));
for (const tab of ["graph", "kernels", "memory", "time"]) $("tab-" + tab).addEventListener("click", () => go({ tab }));
for (const side of ["before", "after", "both"]) $(side).addEventListener("click", () => go({ side }));
$("fit").addEventListener("click", () => { current.fit(false); current.draw(); });
$("unfold").addEventListener("click", () => current.all(true));
$("fold").addEventListener("click", () => current.all(false));
$("help-button").addEventListener("click", () => $("help").showModal());
$("search").addEventListener("input", search);
document.addEventListener("keydown", key);
window.addEventListener("popstate", () => { readHash(); show(); });
const again = () => { style = getComputedStyle(document.documentElement); show(); };
window.addEventListener("resize", again);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
listPasses();
listKernels();
readHash();
show();
document.documentElement.dataset.ready = Math.round(performance.now());
