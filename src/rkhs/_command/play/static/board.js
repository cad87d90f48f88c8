// The board: f as colors, its boundary and margins as lines, points and representers.  Places are in [-1, 1]^2.

export const COLORS = [[31, 111, 235], [232, 89, 12], [43, 138, 62]];
const FINE = 250; // pixels of the colored field, which is then stretched
const SIZE = 1000; // of the canvas

export const toPixel = ([x, y]) => [(x + 1) / 2 * SIZE, (1 - y) / 2 * SIZE];

export function decoded(found) {
  const bytes = Uint8Array.from(atob(found.values), (sign) => sign.charCodeAt(0));
  const values = new Float32Array(bytes.buffer);
  const outputs = values.length / (found.raster * found.raster);
  return { values, outputs, raster: found.raster, classes: found.classes };
}

export function draw(canvas, state, found) {
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, SIZE, SIZE);
  if (found) {
    const field = decoded(found);
    paintField(pen, field);
    if (state.show.margins) for (const lead of leads(field)) for (const level of marginsOf(field)) {
      contour(pen, lead, field.raster, level, { width: 1.5, dash: [2, 6], color: "#444" });
    }
    for (const lead of leads(field)) contour(pen, lead, field.raster, 0, { width: 4, dash: [], color: "#111" });
    if (found.plain && state.show.compare) {
      const plain = decoded(found.plain);
      for (const lead of leads(plain)) contour(pen, lead, plain.raster, 0, { width: 3, dash: [14, 9], color: "#a1006b" });
    }
    if (state.show.representers) paintRepresenters(pen, found.representers);
  }
  state.points.forEach((point) => paintPoint(pen, point));
  if (state.cursor && document.activeElement === canvas) paintCursor(pen, state.cursor);
}

// For two classes f itself; for three by how much each class is ahead of the others.
function leads({ values, outputs }) {
  if (outputs === 1) return [values];
  const count = values.length / outputs;
  return Array.from({ length: outputs }, (_, k) => Float32Array.from({ length: count }, (_, i) => {
    let other = -Infinity;
    for (let j = 0; j < outputs; j++) if (j !== k) other = Math.max(other, values[i * outputs + j]);
    return values[i * outputs + k] - other;
  }));
}

const marginsOf = ({ outputs }) => (outputs === 1 ? [-1, 1] : [1]);

function paintField(pen, { values, outputs, raster, classes }) {
  const image = new ImageData(FINE, FINE);
  const here = new Float32Array(outputs);
  for (let row = 0; row < FINE; row++) {
    const y = (1 - (row + 0.5) / FINE) * (raster - 1), b = Math.min(Math.floor(y), raster - 2), v = y - b;
    for (let column = 0; column < FINE; column++) {
      const x = (column + 0.5) / FINE * (raster - 1), a = Math.min(Math.floor(x), raster - 2), u = x - a;
      for (let k = 0; k < outputs; k++) {
        const at = (i, j) => values[(j * raster + i) * outputs + k];
        here[k] = (1 - v) * ((1 - u) * at(a, b) + u * at(a + 1, b)) + v * ((1 - u) * at(a, b + 1) + u * at(a + 1, b + 1));
      }
      const [which, sure] = chosen(here);
      const color = COLORS[classes[which]], strength = 0.12 + 0.42 * Math.tanh(sure);
      const place = 4 * (row * FINE + column);
      for (let c = 0; c < 3; c++) image.data[place + c] = 255 + (color[c] - 255) * strength;
      image.data[place + 3] = 255;
    }
  }
  const small = new OffscreenCanvas(FINE, FINE);
  small.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = true;
  pen.drawImage(small, 0, 0, SIZE, SIZE);
}

function chosen(here) {
  if (here.length === 1) return [here[0] > 0 ? 1 : 0, Math.abs(here[0])];
  let best = 0, second = -Infinity;
  for (let k = 1; k < here.length; k++) if (here[k] > here[best]) best = k;
  for (let k = 0; k < here.length; k++) if (k !== best) second = Math.max(second, here[k]);
  return [best, here[best] - second];
}

// Marching squares: in each cell the line between the places where an edge crosses the level.
function contour(pen, values, raster, level, { width, dash, color }) {
  pen.beginPath();
  const step = SIZE / (raster - 1);
  for (let j = 0; j < raster - 1; j++) for (let i = 0; i < raster - 1; i++) {
    const corner = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
    const height = corner.map(([a, b]) => values[b * raster + a] - level);
    const crossed = [];
    for (let k = 0; k < 4; k++) {
      const [p, q] = [height[k], height[(k + 1) % 4]];
      if ((p > 0) === (q > 0)) continue;
      const t = p / (p - q), [a, b] = corner[k], [c, d] = corner[(k + 1) % 4];
      crossed.push([(a + t * (c - a)) * step, SIZE - (b + t * (d - b)) * step]);
    }
    for (let k = 0; k + 1 < crossed.length; k += 2) {
      pen.moveTo(...crossed[k]);
      pen.lineTo(...crossed[k + 1]);
    }
  }
  pen.setLineDash(dash);
  pen.lineWidth = width;
  pen.strokeStyle = color;
  pen.stroke();
  pen.setLineDash([]);
}

function paintRepresenters(pen, { values, slopes }) {
  pen.lineWidth = 2;
  pen.strokeStyle = "rgba(20, 20, 20, 0.55)";
  for (const place of values) {
    pen.beginPath();
    pen.arc(...toPixel(place), 15, 0, 7);
    pen.stroke();
  }
  for (const [x, y, u, v] of slopes) {
    pen.beginPath();
    pen.moveTo(...toPixel([x, y]));
    pen.lineTo(...toPixel([x + u, y + v]));
    pen.stroke();
  }
}

function paintPoint(pen, [x, y, kind]) {
  const [u, v] = toPixel([x, y]);
  pen.beginPath();
  if (kind === -1) pen.arc(u, v, 5, 0, 7);
  else if (kind === 0) pen.arc(u, v, 10, 0, 7);
  else if (kind === 1) pen.rect(u - 9, v - 9, 18, 18);
  else { pen.moveTo(u, v - 12); pen.lineTo(u + 11, v + 9); pen.lineTo(u - 11, v + 9); pen.closePath(); }
  pen.fillStyle = kind === -1 ? "#59636e" : `rgb(${COLORS[kind]})`;
  pen.fill();
  pen.lineWidth = 2;
  pen.strokeStyle = kind === -1 ? "#fff" : "#111";
  pen.stroke();
}

function paintCursor(pen, place) {
  const [u, v] = toPixel(place);
  pen.strokeStyle = "#111";
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(u - 18, v); pen.lineTo(u + 18, v);
  pen.moveTo(u, v - 18); pen.lineTo(u, v + 18);
  pen.stroke();
}
