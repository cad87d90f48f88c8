// What is on the screen, what is done to it, and what the server answers.

import { draw } from "./board.js";
import { post } from "./server.js";

const NUMBERS = ["C", "nu", "scale", "shift"], FLAGS = ["gradient", "graph", "repeats"], SHOWN = ["margins", "representers", "compare"];
const NEAR = 0.045, APART = 0.055, MOST = 1000, REST = 250; // REST: milliseconds until the exact solution is asked for
const canvas = document.getElementById("board"), panel = document.getElementById("panel");
const state = {
  points: [], C: 30, nu: 3, scale: 0.3, shift: 0.5, gradient: false, graph: true, repeats: false, monotone: "",
  show: { margins: true, representers: true, compare: false }, tool: 0, cursor: [0, 0],
};
let found = null, busy = false, again = null, timer = 0, held = null, past = [];

// ---- who solves

const scene = () => {
  const { points, gradient, graph, repeats, monotone, C, nu, scale, shift } = state;
  return { points, gradient, graph, repeats, monotone, C, nu, scale, shift };
};

// One request at a time: while one is under way the newest wish waits.
async function solve(quick) {
  if (new Set(state.points.map((point) => point[2]).filter((kind) => kind >= 0)).size < 2) {
    found = null;
    complain("Paint points of two classes.");
    repaint();
    return;
  }
  if (busy) { again = { quick }; return; }
  busy = true;
  try {
    found = await post("solve", { ...scene(), quick, compare: state.show.compare });
    tell(found);
  } catch (error) {
    found = null;
    complain(error.message);
  }
  busy = false;
  repaint();
  if (again) { const next = again; again = null; solve(next.quick); }
}

// After every change: at once in the span of landmarks, and when nothing moves any more, exactly.
function changed() {
  keep();
  solve(true);
  clearTimeout(timer);
  timer = setTimeout(() => solve(false), REST);
}

// ---- what is said

const short = (value) => {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value).toExponential(1);
  return String(Number(Number(value).toPrecision(size >= 100 ? 4 : 3)));
};

function tell({ certificate, wrong, milliseconds, plain }) {
  const verdict = document.getElementById("verdict");
  verdict.className = certificate.certified ? "good" : "bad";
  verdict.textContent = certificate.certified
    ? `Certified: at most ${short(100 * certificate.gap)} % above the minimum${certificate.span ? " in the span" : ""}.`
    : `Not certified: ${certificate.status}.`;
  const rows = {
    "wrong labels": plain ? `${wrong}; plain SVM ${plain.wrong}` : wrong,
    "J(f)": short(certificate.primal),
    functionals: certificate.functionals,
    representers: certificate.representers,
    solver: certificate.span ?? certificate.solver,
    "solved and drawn": `${milliseconds} ms`,
  };
  document.getElementById("facts").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    [dt.textContent, dd.textContent] = [name, value];
    return [dt, dd];
  }));
}

function complain(text) {
  const verdict = document.getElementById("verdict");
  verdict.className = "";
  verdict.textContent = text;
  document.getElementById("facts").replaceChildren();
}

const say = (text) => { document.getElementById("told").textContent = text; };
const repaint = () => draw(canvas, state, found);

// ---- the panel

function shown() {
  for (const name of NUMBERS) {
    const slider = panel.elements[name];
    slider.value = "log" in slider.dataset ? Math.log10(state[name]) : state[name];
    panel.querySelector(`output[for=${name}]`).textContent = short(state[name]);
  }
  for (const name of FLAGS) panel.elements[name].checked = state[name];
  for (const name of SHOWN) panel.elements[name].checked = state.show[name];
  panel.elements.monotone.value = state.monotone;
  document.getElementById("shift-row").hidden = !state.repeats;
  for (const button of document.querySelectorAll("[data-tool]")) {
    button.setAttribute("aria-pressed", String(button.dataset.tool === String(state.tool)));
  }
}

panel.addEventListener("submit", (event) => event.preventDefault());
panel.addEventListener("input", ({ target }) => {
  const name = target.name;
  if (NUMBERS.includes(name)) state[name] = "log" in target.dataset ? Number((10 ** target.value).toPrecision(3)) : Number(target.value);
  else if (FLAGS.includes(name)) state[name] = target.checked;
  else if (SHOWN.includes(name)) state.show[name] = target.checked;
  else state.monotone = target.value;
  shown();
  changed();
});

for (const button of document.querySelectorAll("[data-tool]")) {
  button.addEventListener("click", () => pick(button.dataset.tool));
}
for (const button of document.querySelectorAll("[data-example]")) {
  button.addEventListener("click", async () => {
    remember();
    try { Object.assign(state, await post("example", { name: button.dataset.example })); } catch (error) { say(error.message); }
    shown();
    changed();
  });
}
document.getElementById("clear").addEventListener("click", () => { remember(); state.points = []; changed(); });
document.getElementById("copy").addEventListener("click", async () => {
  try {
    const { code } = await post("code", scene());
    await copied(code);
    say("The Python code of what is on screen is copied.");
  } catch (error) { say(error.message); }
});
document.getElementById("save").addEventListener("click", () => canvas.toBlob((blob) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = "rkhs-play.png";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  say("The picture is saved as rkhs-play.png.");
}));

async function copied(text) {
  try { await navigator.clipboard.writeText(text); } catch { // a browser that does not let pages write there
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("The browser does not let the page copy.");
  }
}

function pick(tool) {
  state.tool = tool === "erase" ? tool : Number(tool);
  shown();
  keep();
}

// ---- the board

const bounded = (value) => Math.max(-1, Math.min(1, value));
const rounded = ([x, y]) => [Number(bounded(x).toFixed(4)), Number(bounded(y).toFixed(4))];

function place(event) {
  const box = canvas.getBoundingClientRect();
  return rounded([2 * (event.clientX - box.left) / box.width - 1, 1 - 2 * (event.clientY - box.top) / box.height]);
}

function nearest([x, y], within) {
  let best = -1, least = within * within;
  state.points.forEach(([a, b], k) => {
    const far = (a - x) ** 2 + (b - y) ** 2;
    if (far < least) [best, least] = [k, far];
  });
  return best;
}

function paint(at) {
  if (state.tool === "erase") {
    const k = nearest(at, NEAR);
    if (k < 0) return;
    state.points.splice(k, 1);
  } else {
    if (state.points.length >= MOST) { say(`${MOST} points are the most.`); return; }
    state.points.push([...at, state.tool]);
  }
  changed();
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  canvas.focus();
  remember();
  const at = place(event), k = nearest(at, NEAR);
  held = { point: state.tool === "erase" ? -1 : k, last: at };
  state.cursor = at;
  if (held.point < 0) paint(at);
});
canvas.addEventListener("pointermove", (event) => {
  if (!held) return;
  const at = place(event);
  if (held.point >= 0) {
    state.points[held.point] = [...at, state.points[held.point][2]];
    changed();
  } else if (state.tool === "erase" || Math.hypot(at[0] - held.last[0], at[1] - held.last[1]) > APART) {
    held.last = at;
    paint(at);
  }
  repaint();
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });
canvas.addEventListener("blur", repaint);
canvas.addEventListener("focus", repaint);

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
canvas.addEventListener("keydown", (event) => {
  const step = event.shiftKey ? 0.01 : 0.05;
  if (event.key in MOVES) {
    const [u, v] = MOVES[event.key];
    state.cursor = rounded([state.cursor[0] + step * u, state.cursor[1] + step * v]);
    repaint();
  } else if (event.key === "Enter" || event.key === " ") {
    remember();
    paint(state.cursor);
  } else if (event.key === "Delete" || event.key === "Backspace") {
    const k = nearest(state.cursor, 4);
    if (k >= 0) { remember(); state.points.splice(k, 1); changed(); }
  } else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "z") {
    if (past.length) { state.points = past.pop(); changed(); }
    event.preventDefault();
    return;
  }
  const tool = { 1: "0", 2: "1", 3: "2", 0: "-1", e: "erase", E: "erase" }[event.key];
  if (tool !== undefined && !event.ctrlKey && !event.metaKey && !["SELECT"].includes(event.target.tagName)) pick(tool);
});

// ---- what stays

function remember() {
  past = [...past.slice(-49), state.points.map((point) => [...point])];
}

const keep = () => sessionStorage.setItem("scene", JSON.stringify({ ...scene(), show: state.show, tool: state.tool }));

async function begin() {
  shown();
  repaint();
  const kept = sessionStorage.getItem("scene");
  if (kept) Object.assign(state, JSON.parse(kept));
  else Object.assign(state, await post("example", { name: "moons" }));
  shown();
  changed();
}

begin();
