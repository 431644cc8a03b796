"use strict";
// Draws the sections of a page from the data that it holds: no request, no library.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const PALETTE = ["#0b62a8", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f5fc0", "#888888"];
  const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

  // ---------------------------------------------------------------- elements and numbers

  function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    for (const child of children) if (child !== null) node.append(child);
    return node;
  }
  const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const draw = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

  function short(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en");
    const size = Math.abs(value);
    return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  }

  function ticks(low, high, count, log) {
    if (log) {
      const [a, b] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
      const every = Math.max(1, Math.ceil((b - a + 1) / count));
      const found = [];
      for (let e = a; e <= b; e += every) found.push(10 ** e);
      if (found.length > 1) return found;
    }
    const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + 1e-9 * step; t += step) {
      found.push(Number(t.toPrecision(12)));
    }
    return found;
  }

  function power(value) { // a tick of a log axis
    const e = Math.log10(value);
    return Math.abs(e - Math.round(e)) < 1e-9 && Math.abs(e) > 3 ? `1e${Math.round(e)}` : short(value);
  }

  /** Buttons of which one is pressed. */
  function choice(label, options, now, act) {
    const group = el("div", { class: "switch", role: "group", "aria-label": label }, el("span", {}, label));
    for (const [key, words] of options) {
      const button = el("button", { type: "button", "data-key": key, "aria-pressed": String(key === now) }, words);
      button.addEventListener("click", () => {
        for (const other of group.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", "true");
        act(key);
      });
      group.append(button);
    }
    return group;
  }

  /** A box for a drawing that is drawn again when its width changes, and a tip that follows the pointer. */
  function figure(paint) {
    const box = el("div", { class: "figure" }), tip = el("div", { class: "tip" });
    let width = 0;
    const again = () => {
      width = Math.max(300, box.clientWidth || 900);
      tip.style.display = "none";
      box.replaceChildren(paint(width, show), tip);
    };
    function show(x, y, lines) {
      tip.style.display = lines === null ? "none" : "block";
      if (lines === null) return;
      tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
      tip.style.left = `${Math.max(0, x + 14 + tip.offsetWidth > width ? x - 14 - tip.offsetWidth : x + 14)}px`;
      tip.style.top = `${y}px`;
    }
    new ResizeObserver(() => { if (Math.max(300, box.clientWidth) !== width) again(); }).observe(box);
    return [box, again];
  }

  // ---------------------------------------------------------------- curves

  function curves(section) {
    const state = { x: section.axes[0][0], y: section.measures[0][0], scale: section.logx ? "log" : "linear" };
    const hidden = new Set();
    const colour = (line, k) => line.color || PALETTE[k % PALETTE.length];
    const [box, again] = figure((width, show) => chart(section, state, hidden, colour, width, show));
    const switches = el("div", { class: "switches" });
    const turn = (name) => (key) => { state[name] = key; legend(); again(); };
    if (section.measures.length > 1) switches.append(choice(section.words || "show", section.measures, state.y, turn("y")));
    if (section.axes.length > 1) switches.append(choice("against", section.axes, state.x, turn("x")));
    switches.append(choice("axis", [["linear", "linear"], ["log", "log"]], state.scale, turn("scale")));
    const names = el("div", { class: "switches legend" });
    function legend() {
      names.replaceChildren(...section.lines.flatMap((line, k) => {
        if (!line.y[state.y] || !line.x[state.x]) return [];
        const mark = draw("svg", { width: 26, height: 10 },
          draw("line", { x1: 0, y1: 5, x2: 26, y2: 5, stroke: colour(line, k), "stroke-width": 2.5, "stroke-dasharray": line.dash || "none" }));
        const button = el("button", { type: "button", "aria-pressed": String(!hidden.has(line.name)) }, mark, line.name);
        button.addEventListener("click", () => {
          if (!hidden.delete(line.name)) hidden.add(line.name);
          legend();
          again();
        });
        return [button];
      }));
    }
    legend();
    return [switches, box, names, again];
  }

  function chart(section, state, hidden, colour, width, show) {
    const height = Math.round(Math.min(420, Math.max(260, width * 0.45)));
    const [left, right, top, bottom] = [62, width - 12, 10, height - 40];
    const logx = state.scale === "log", logy = !(section.linear || []).includes(state.y);
    const seen = (value, log) => value !== null && Number.isFinite(value) && (!log || value > 0);
    const lines = section.lines.map((line, k) => ({ ...line, k, px: line.x[state.x], py: line.y[state.y] }))
      .filter((line) => line.px && line.py && !hidden.has(line.name))
      .map((line) => ({ ...line, points: line.px.flatMap((x, i) => seen(x, logx) && seen(line.py[i], logy) ? [[x, line.py[i]]] : []) }))
      .filter((line) => line.points.length);
    const all = lines.flatMap((line) => line.points);
    const image = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": section.title });
    const level = (section.level || {})[state.y];
    if (!all.length) {
      image.append(draw("text", { x: left, y: height / 2 }, "Nothing to draw here."));
      return image;
    }
    const extent = (k, log, more) => {
      let low = Infinity, high = -Infinity;
      for (const value of [...all.map((point) => point[k]), ...more]) { low = Math.min(low, value); high = Math.max(high, value); }
      if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
      return k === 1 && log ? [10 ** (Math.log10(low) - 0.15), 10 ** (Math.log10(high) + 0.15)] : [low, high];
    };
    const [x0, x1] = extent(0, logx, []), [y0, y1] = extent(1, logy, level ? [level] : []);
    const place = (low, high, from, to, log) => {
      const f = log ? Math.log10 : (v) => v;
      return (value) => from + ((f(value) - f(low)) / (f(high) - f(low))) * (to - from);
    };
    const X = place(x0, x1, left, right, logx), Y = place(y0, y1, bottom, top, logy);
    for (const t of ticks(y0, y1, 7, logy)) {
      image.append(draw("line", { class: "grid", x1: left, x2: right, y1: Y(t), y2: Y(t) }),
        draw("text", { x: left - 8, y: Y(t) + 4, "text-anchor": "end" }, logy ? power(t) : short(t)));
    }
    for (const t of ticks(x0, x1, Math.max(3, Math.floor(width / 130)), logx)) {
      image.append(draw("line", { class: "grid", x1: X(t), x2: X(t), y1: bottom, y2: bottom + 5 }),
        draw("text", { x: X(t), y: bottom + 19, "text-anchor": "middle" }, logx ? power(t) : short(t)));
    }
    // Where the measures are what is counted, it is they that name the axis.
    const words = section.words === "against" ? section.measures.find(([key]) => key === state.y)[1] : section.axes.find(([key]) => key === state.x)[1];
    image.append(draw("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, words));
    if (level) image.append(draw("line", { class: "level", x1: left, x2: right, y1: Y(level), y2: Y(level) }));
    for (const line of lines) {
      const path = line.points.map(([x, y], i) => (section.step && i ? `H${X(x).toFixed(1)}V` : `${i ? "L" : "M"}${X(x).toFixed(1)},`) + Y(y).toFixed(1));
      image.append(draw("path", { class: "curve", d: path.join(""), fill: "none", stroke: colour(line, line.k),
        "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": line.dash || "none" }));
      if (line.points.length === 1) { // a path of one point shows nothing
        image.append(draw("circle", { class: "lone", cx: X(line.points[0][0]), cy: Y(line.points[0][1]), r: 4, fill: colour(line, line.k) }));
      }
    }
    const hair = draw("line", { class: "level", y1: top, y2: bottom, visibility: "hidden" });
    const dots = lines.map((line) => draw("circle", { r: 4, fill: colour(line, line.k), visibility: "hidden" }));
    image.append(hair, ...dots);
    image.addEventListener("pointermove", (event) => {
      const frame = image.getBoundingClientRect(), at = ((event.clientX - frame.left) * width) / frame.width;
      const near = lines.map((line) => line.points.reduce((best, point) => Math.abs(X(point[0]) - at) < Math.abs(X(best[0]) - at) ? point : best));
      const nearest = near.reduce((best, point) => Math.abs(X(point[0]) - at) < Math.abs(X(best[0]) - at) ? point : best);
      fill(hair, { x1: X(nearest[0]), x2: X(nearest[0]), visibility: "visible" }, []);
      near.forEach((point, k) => fill(dots[k], { cx: X(point[0]), cy: Y(point[1]), visibility: "visible" }, []));
      show(X(nearest[0]), 12, [`${words}: ${short(nearest[0])}`, ...lines.map((line, k) => `${line.name}: ${short(near[k][1])}`)]);
    });
    image.addEventListener("pointerleave", () => {
      for (const mark of [hair, ...dots]) mark.setAttribute("visibility", "hidden");
      show(0, 0, null);
    });
    return image;
  }

  // ---------------------------------------------------------------- the network over the run

  function shade(share) {
    const at = Math.min(0.9999, Math.max(0, share)) * (SCALE.length - 1), k = Math.floor(at);
    return `rgb(${SCALE[k].map((v, i) => Math.round(v + (at - k) * (SCALE[k + 1][i] - v))).join(",")})`;
  }

  function graph(section) {
    const n = section.x.length, last = section.frames.length - 1;
    const state = { measure: section.measures[0][0], frame: last, timer: null };
    const bounds = () => {
      const all = section.values[state.measure].flat().filter((value) => value !== null);
      const [low, high] = all.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
      return all.length ? [low, Math.max(high, low + 1e-9)] : [0, 1];
    };
    let nodes = [];
    const [box, again] = figure((width, show) => {
      const height = Math.round(Math.min(520, width * 0.62)), r = Math.max(2.2, Math.min(11, 60 / Math.sqrt(n)));
      const X = (k) => 24 + section.x[k] * (width - 48), Y = (k) => 24 + section.y[k] * (height - 48);
      const image = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": section.title });
      for (let k = 0; k < section.edges.length; k += 2) {
        const [i, j] = [section.edges[k], section.edges[k + 1]];
        image.append(draw("line", { class: "edge", x1: X(i), y1: Y(i), x2: X(j), y2: Y(j) }));
      }
      nodes = section.names.map((name, k) => {
        const node = draw("circle", { class: "agent", cx: X(k), cy: Y(k), r, stroke: "var(--soft)" });
        node.addEventListener("pointerenter", () => show(X(k), Y(k) - 10, [name, `${section.degrees[k]} neighbours`,
          ...section.measures.map(([key, words]) => `${words}: ${tell(section.values[key][state.frame][k])}`)]));
        node.addEventListener("pointerleave", () => show(0, 0, null));
        return node;
      });
      image.append(...nodes);
      paint();
      return image;
    });
    const slider = el("input", { type: "range", min: 0, max: last, value: last, "aria-label": "iteration" });
    const words = el("span", { class: "when" }), worst = el("p", { class: "note worst" }), key = el("span", { class: "key" });
    const tell = (value) => (value === null ? "0" : (10 ** value).toExponential(1));
    function paint() {
      const values = section.values[state.measure][state.frame], [low, high] = bounds();
      nodes.forEach((node, k) => node.setAttribute("fill", values[k] === null ? shade(0) : shade((values[k] - low) / (high - low))));
      words.textContent = `iteration ${section.frames[state.frame].toLocaleString("en")}`;
      const order = values.map((value, k) => [value === null ? -Infinity : value, k]).sort((a, b) => b[0] - a[0]).slice(0, 5);
      worst.textContent = `Largest here: ${order.map(([value, k]) => `${section.names[k]} (${tell(value === -Infinity ? null : value)})`).join(", ")}.`;
      const stops = SCALE.map((c) => `rgb(${c.join(",")})`).join(",");
      key.replaceChildren(`${tell(low)} `, el("span", { style: `display:inline-block;width:110px;height:11px;border-radius:3px;background:linear-gradient(90deg,${stops})` }), ` ${tell(high)}`);
    }
    slider.addEventListener("input", () => { state.frame = Number(slider.value); paint(); });
    const play = el("button", { type: "button", class: "play" }, "play");
    const stop = () => { clearInterval(state.timer); state.timer = null; play.textContent = "play"; };
    play.addEventListener("click", () => {
      if (state.timer) return stop();
      if (state.frame === last) state.frame = 0;
      play.textContent = "pause";
      state.timer = setInterval(() => {
        if (state.frame >= last) return stop();
        state.frame += 1;
        slider.value = state.frame;
        paint();
      }, 120);
    });
    const switches = el("div", { class: "switches" },
      choice("colour", section.measures, state.measure, (name) => { state.measure = name; paint(); }), key);
    const run = last ? el("div", { class: "switches" }, play, slider, words) : null;
    return [switches, box, run, worst, again];
  }

  // ---------------------------------------------------------------- when each party computed and waited

  function bars(section) {
    const [box, again] = figure((width, show) => {
      const tall = Math.max(12, Math.min(26, 700 / section.rows.length)), bottom = 10 + tall * section.rows.length;
      const left = 20 + 7.2 * Math.max(...section.rows.map((row) => row.name.length)), right = width - 14;
      const end = Math.max(1e-9, ...section.rows.flatMap((row) => [...row.spans.map((span) => span[1]), ...row.marks.map((mark) => mark[0])]));
      const X = (time) => left + (time / end) * (right - left);
      const image = draw("svg", { viewBox: `0 0 ${width} ${bottom + 42}`, height: bottom + 42, role: "img", "aria-label": section.title });
      section.rows.forEach((row, k) => {
        const y = 10 + tall * k;
        image.append(draw("text", { x: left - 8, y: y + tall * 0.65, "text-anchor": "end" }, row.name));
        for (const [from, to, busy] of row.spans) {
          const whole = draw("rect", { class: "waiting", x: X(from), y: y + 2, width: Math.max(0.5, X(to) - X(from)), height: tall - 4, fill: "var(--idle)" });
          const part = draw("rect", { class: "computing", x: X(from), y: y + 2, width: Math.max(0, (X(to) - X(from)) * busy), height: tall - 4, fill: "var(--accent)" });
          for (const shape of [whole, part]) {
            shape.addEventListener("pointerenter", () => show(X(from), y + tall, [row.name, `${short(from)} s to ${short(to)} s`, `computing ${Math.round(100 * busy)} %, waiting ${Math.round(100 - 100 * busy)} %`]));
            shape.addEventListener("pointerleave", () => show(0, 0, null));
          }
          image.append(whole, part);
        }
        for (const [time, text] of row.marks) {
          const mark = draw("path", { class: "mark", d: `M${X(time) - 5},${y + tall / 2 - 5}l10,10m0,-10l-10,10`, stroke: "var(--bad)", "stroke-width": 2.5 });
          mark.addEventListener("pointerenter", () => show(X(time) - 40, y + tall, [row.name, text]));
          mark.addEventListener("pointerleave", () => show(0, 0, null));
          image.append(mark);
        }
      });
      for (const t of ticks(0, end, Math.max(3, Math.floor(width / 130)), false)) {
        image.append(draw("text", { x: X(t), y: bottom + 16, "text-anchor": "middle" }, short(t)));
      }
      image.append(draw("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, "seconds"));
      return image;
    });
    return [box, again];
  }

  // ---------------------------------------------------------------- tables and text

  const wording = (value) => (typeof value === "number" ? short(value) : String(value ?? ""));
  const numeric = (value) => typeof value === "number" || /^([-+]?[\d,]*\.?\d+(e[-+]?\d+)?|[–-]|)$/i.test(wording(value));

  /** A column is set to the right only if nothing in it is text. Rows that are too wide for a phone become blocks there. */
  function table(section) {
    const body = el("tbody"), rows = section.rows.slice();
    const right = section.header.map((_, k) => rows.every((row) => numeric(row[k])) && rows.some((row) => wording(row[k]) !== ""));
    const wide = (k) => Math.max(section.header[k].length, ...rows.map((row) => wording(row[k]).length));
    const stacked = section.header.reduce((sum, _, k) => sum + wide(k) + 2, 0) > 48; // characters
    const cell = (value, k) => {
      const words = wording(value), kind = right[k] ? "number" : words.length > 60 ? "long" : words.length < 24 ? "short" : "";
      return el("td", { class: words === "" ? `${kind} empty` : kind, "data-label": section.header[k] }, words);
    };
    const paint = () => body.replaceChildren(...rows.map((row) => el("tr", {}, ...row.map(cell))));
    const heads = section.header.map((name, k) => {
      const head = el("th", { "aria-sort": "none", title: "sort", class: right[k] ? "number" : "" }, name);
      head.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
        const value = (row) => { const found = Number(String(row[k]).replaceAll(",", "")); return Number.isNaN(found) ? String(row[k]) : found; };
        rows.sort((a, b) => { const [u, v] = [value(a), value(b)]; return sign * (typeof u === typeof v ? (u > v) - (u < v) : typeof u === "number" ? -1 : 1); });
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        paint();
      });
      return head;
    });
    paint();
    const sheet = el("table", stacked ? { class: "stacked" } : {}, el("thead", {}, el("tr", {}, ...heads)), body);
    return [el("div", { class: "scroll" }, sheet)];
  }

  const facts = (section) => [el("table", { class: "facts" }, el("tbody", {},
    ...section.rows.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, wording(value))))))];

  /** Paragraphs; one that nobody would read to its end is folded, and so is the second part of a pair. */
  const folded = (seen, rest) => el("details", {}, el("summary", {}, seen), el("p", {}, rest));
  const prose = (section) => section.text.map((line) => (Array.isArray(line) ? folded(...line)
    : line.length < 700 ? el("p", {}, line) : folded(`${line.slice(0, 120)} ...`, line)));

  // ---------------------------------------------------------------- the page

  const KINDS = { curves, graph, bars, table, facts, prose };
  const main = document.querySelector("main"), nav = document.querySelector("nav");
  page.sections.forEach((section, k) => {
    const parts = KINDS[section.kind](section), later = parts.filter((part) => typeof part === "function");
    const home = el("section", { id: `part${k}`, "data-kind": section.kind }, el("h2", {}, section.title),
      section.note ? el("p", { class: "note" }, section.note) : null);
    home.append(...parts.filter((part) => part !== null && typeof part !== "function"));
    main.append(home);
    nav.append(el("a", { href: `#part${k}` }, section.title));
    for (const again of later) again();
  });
})();
