// The distribution over arms as a heat map: one row per arm, time to the right.

import { heat } from "./colours.js";
import { colourOf, contentWidth, setText } from "./dom.js";
import { clock, probability, shorten } from "./format.js";

const ROW = { least: 16, most: 28, together: 340 }; // px
const FONT = { plain: "12px system-ui, sans-serif", bold: "bold 12px system-ui, sans-serif" };
const AXIS = 20; // px, below the rows
const VALUES = 62; // px, to the right: the probabilities now
const SCALES = [0.02, 0.05, 0.1, 0.2, 0.5, 1];
const HINT = "Point at a cell, or use the arrow keys, to read a value.";
const KEYS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity],
};

export class HeatMap {
  constructor(canvas, readout, mostLabel) {
    Object.assign(this, { canvas, readout, mostLabel, cursor: null, history: null });
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.moveTo(null));
    canvas.addEventListener("blur", () => this.moveTo(null));
    canvas.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
    setText(readout, HINT);
  }

  show(history, arms, recommended) {
    if (history !== this.history || arms.length !== this.arms.length) this.cursor = null;
    Object.assign(this, { history, arms, recommended });
    this.draw();
  }

  // The layout of the canvas, in px.
  measure(context, width) {
    const count = this.arms.length;
    const row = Math.max(ROW.least, Math.min(ROW.most, Math.floor(ROW.together / count)));
    const letters = Math.max(6, Math.floor((width * 0.34) / 7));
    const labels = this.arms.map((arm, i) => shorten(`${i + 1} ${arm}`, letters));
    context.font = FONT.bold;
    const left = Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width))) + 10;
    return { row, labels, left, width: Math.max(1, width - left - VALUES), height: row * count };
  }

  draw() {
    const width = contentWidth(this.canvas.parentElement);
    if (!this.history || width <= 0) return;
    const context = this.canvas.getContext("2d");
    const place = (this.place = this.measure(context, width));
    const ratio = window.devicePixelRatio || 1;
    resize(this.canvas, width, place.height + AXIS, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, place.height + AXIS);
    this.drawCells(context);
    this.drawLabels(context);
    this.drawCursor(context);
  }

  drawCells(context) {
    const { left, width, height } = this.place;
    const { history, arms } = this;
    const most = Math.max(...history.distributions.map((p) => (p ? Math.max(...p) : 0)));
    const scale = SCALES.find((one) => one >= most) ?? 1;
    setText(this.mostLabel, String(scale));
    const columns = Math.floor(width);
    const image = new ImageData(columns, arms.length);
    const [start, end] = history.window;
    const colours = new Map(); // many adjacent columns show the same sample
    for (let x = 0; x < columns; x++) {
      const sample = history.at(start + ((x + 0.5) / columns) * (end - start));
      if (sample < 0) continue;
      if (!colours.has(sample)) {
        colours.set(sample, [...history.distributions[sample]].map((p) => heat(p / scale)));
      }
      colours.get(sample).forEach(([red, green, blue], arm) => {
        image.data.set([red, green, blue, 255], (arm * columns + x) * 4);
      });
    }
    const cells = new OffscreenCanvas(columns, arms.length);
    cells.getContext("2d").putImageData(image, 0, 0);
    context.fillStyle = colourOf("--blank");
    context.fillRect(left, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells, left, 0, width, height);
  }

  drawLabels(context) {
    const { left, width, height, row, labels } = this.place;
    const now = this.history.distributions.at(-1);
    context.textBaseline = "middle";
    context.fillStyle = colourOf("--text");
    labels.forEach((label, arm) => {
      const leads = this.arms[arm] === this.recommended;
      context.font = leads ? FONT.bold : FONT.plain;
      context.textAlign = "right";
      context.fillText(label, left - 6, (arm + 0.5) * row);
      context.textAlign = "left";
      const value = `${probability(now[arm])}${leads ? " ◂" : ""}`;
      context.fillText(value, left + width + 5, (arm + 0.5) * row);
    });
    context.font = FONT.plain;
    context.fillStyle = colourOf("--muted");
    const [start, end] = this.history.window;
    const y = height + AXIS / 2 + 2;
    context.textAlign = "left";
    context.fillText(clock(start), left, y);
    context.textAlign = "right";
    context.fillText(clock(end - 1), left + width, y);
  }

  drawCursor(context) {
    if (!this.cursor) return;
    const { left, width, row } = this.place;
    const [start, end] = this.history.window;
    const x = left + ((this.cursor.time - start) / (end - start)) * width;
    const y = this.cursor.arm * row;
    const cell = Math.max(6, width / (end - start));
    // White around black is visible on every colour of the map.
    for (const [colour, line] of [["#fff", 4], ["#000", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = line;
      context.strokeRect(Math.min(x, left + width - cell), y + 1, cell, row - 2);
    }
  }

  point(event) {
    if (!this.place) return;
    const { left, width, row } = this.place;
    const [start, end] = this.history.window;
    const box = this.canvas.getBoundingClientRect();
    const time = start + ((event.clientX - box.left - left) / width) * (end - start);
    const arm = Math.floor((event.clientY - box.top) / row);
    const sample = time < end ? this.history.at(time) : -1;
    const hit = sample >= 0 && arm >= 0 && arm < this.arms.length;
    this.moveTo(hit ? { arm, time: this.history.times[sample] } : null);
  }

  press(event) {
    const move = KEYS[event.key];
    if (!move || !this.history) return;
    event.preventDefault();
    const { times, distributions } = this.history;
    const seen = times.filter((_, i) => distributions[i]);
    const last = seen.length - 1;
    const from = this.cursor ? seen.indexOf(this.cursor.time) : last;
    const first = this.cursor ? this.cursor.arm : this.arms.indexOf(this.recommended);
    const clamp = (value, most) => Math.max(0, Math.min(most, value));
    // The first key only shows the cursor.
    const [down, right] = this.cursor ? move : [0, 0];
    const time = seen[clamp(from + right, last)];
    this.moveTo({ arm: clamp(first + down, this.arms.length - 1), time });
  }

  moveTo(cursor) {
    this.cursor = cursor;
    const sample = cursor ? this.history.times.indexOf(cursor.time) : -1;
    if (sample < 0) {
      this.cursor = null;
      setText(this.readout, HINT);
    } else {
      const value = probability(this.history.distributions[sample][cursor.arm]);
      setText(this.readout, `${this.arms[cursor.arm]} at ${clock(cursor.time)}: ${value}`);
    }
    this.draw();
  }
}

function resize(canvas, width, height, ratio) {
  const [x, y] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== x || canvas.height !== y) {
    canvas.width = x;
    canvas.height = y;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
}
