
"use strict";
(() => {
  // Tables sort on a click on a heading; without this script they stay in their first order.
  const key = (row, i) => {
    const cell = row.cells[i];
    if (!cell) return "";
    const v = cell.dataset.v;
    if (v !== undefined) return Number(v);
    return cell.classList.contains("faint") ? "" : cell.textContent.trim().toLowerCase();
  };
  const order = (a, b, dir) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // unknown comes last either way
    if (typeof a === "number" && typeof b === "number") return dir * (a - b);
    return dir * String(a).localeCompare(String(b), "en", { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sort")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    heads.forEach((th, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = th.textContent;
      th.replaceChildren(button);
      th.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const was = th.getAttribute("aria-sort");
        const dir = was === "none" ? (th.classList.contains("num") ? -1 : 1) : was === "ascending" ? -1 : 1;
        heads.forEach((h) => h.setAttribute("aria-sort", "none"));
        th.setAttribute("aria-sort", dir > 0 ? "ascending" : "descending");
        const rows = [...body.rows].map((row, n) => [key(row, i), n, row]);
        rows.sort((a, b) => order(a[0], b[0], dir) || a[1] - b[1]);
        body.append(...rows.map((r) => r[2]));
      });
    });
  }

  // A plot answers the pointer with the values of its nearest points, read back from its own geometry.
  const digits = (v) => {
    const a = Math.abs(v);
    if (a === 0) return "0";
    if (a >= 99.95) return v.toFixed(0);
    if (a >= 9.995) return v.toFixed(1);
    if (a >= 0.01) return v.toFixed(2);
    return v.toPrecision(2);
  };
  const format = (v, unit) => {
    const pick = (steps) => {
      const s = steps.find((x) => Math.abs(v) >= x[0]) || steps[steps.length - 1];
      return digits(v / s[0]) + " " + s[1];
    };
    switch (unit) {
      case "s":
        if (Math.abs(v) >= 1 && Math.abs(v) < 120) return digits(v) + " s";
        return pick([[7200, "h"], [120, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]).replace(/^(.*) h$/, () => digits(v / 3600) + " h").replace(/^(.*) min$/, () => digits(v / 60) + " min");
      case "B":
        return pick([[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]]);
      case "ratio":
        return digits(v * 100) + " %";
      case "1":
        return digits(v);
    }
    return digits(v) + " " + unit;
  };
  for (const area of document.querySelectorAll(".area")) {
    const d = area.dataset;
    const [x0, x1, y0, y1] = [d.x0, d.x1, d.y0, d.y1].map(Number);
    const value = (py) => {
      const t = 1 - py / 200;
      return "log" in d ? Math.exp(Math.log(y0) + t * (Math.log(y1) - Math.log(y0))) : y0 + t * (y1 - y0);
    };
    let lines;
    const load = () =>
      [...area.querySelectorAll("g[data-name]")].map((g) => ({
        name: g.dataset.name,
        points: [...g.querySelectorAll("polyline,polygon")].flatMap((p) => p.getAttribute("points").trim().split(" ").map((s) => s.split(",").map(Number))),
      }));
    const cross = document.createElement("div");
    const read = document.createElement("div");
    cross.className = "cross";
    read.className = "read";
    cross.hidden = read.hidden = true;
    cross.ariaHidden = read.ariaHidden = "true";
    area.append(cross, read);
    area.addEventListener("pointermove", (e) => {
      lines ||= load();
      const box = area.getBoundingClientRect();
      const px = Math.max(0, Math.min(1000, ((e.clientX - box.left) / box.width) * 1000));
      let at = null;
      const near = lines.map((l) => {
        let best = Infinity, ys = [];
        for (const [x, y] of l.points) {
          const dist = Math.abs(x - px);
          if (dist < best - 1e-6) { best = dist; ys = [y]; if (at === null || dist < Math.abs(at - px)) at = x; }
          else if (dist <= best + 1e-6) ys.push(y);
        }
        const vs = ys.map(value);
        const lo = Math.min(...vs), hi = Math.max(...vs);
        return l.name + " " + (format(lo, d.unit) === format(hi, d.unit) ? format(hi, d.unit) : format(lo, d.unit) + " – " + format(hi, d.unit));
      });
      if (at === null) return;
      const xv = x0 + (at / 1000) * (x1 - x0);
      read.textContent = d.xname + " " + (d.xunit === "1" ? Math.round(xv) : format(xv, d.xunit)) + ": " + near.join(", ");
      cross.hidden = read.hidden = false;
      cross.style.left = at / 10 + "%";
      const left = (at / 1000) * box.width;
      read.style.left = Math.max(0, Math.min(left + 8, box.width - read.offsetWidth)) + "px";
    });
    area.addEventListener("pointerleave", () => { cross.hidden = read.hidden = true; });
  }

  // On paper nothing can be opened.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((x) => { x.open = true; }));
})();
