// A curve over time, drawn by uPlot, with its values as text below.

import { colourOf, element, setText } from "./dom.js";
import { TINY, clock, measure } from "./format.js";

const HEIGHT = 150; // px

export class Chart {
  constructor(container, label) {
    this.readout = element("p", { class: "readout", "aria-live": "off" });
    this.box = element("div", {
      class: "plot", role: "application", "aria-roledescription": "chart", tabindex: "0",
      "aria-label": `${label} over time. Left and right arrow keys move between moments.`,
    });
    container.append(this.box, this.readout);
    this.box.addEventListener("keydown", (event) => this.press(event));
    this.box.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => this.resize()).observe(container);
  }

  show(window, times, values) {
    this.window = window;
    this.values = values;
    this.times = times;
    if (!this.plot) this.make();
    this.plot?.setData([times, values]);
    this.read();
  }

  make() {
    const width = this.box.clientWidth;
    if (!width) return;
    const axis = {
      stroke: () => colourOf("--muted"),
      grid: { stroke: () => colourOf("--line"), width: 1 },
      ticks: { stroke: () => colourOf("--line"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    const options = {
      width,
      height: HEIGHT,
      padding: [10, 30, 0, 0], // room for half a clock time
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: () => this.window },
        y: { range: (_, least, most) => [0, most > TINY ? most * 1.1 : 1] },
      },
      axes: [
        { ...axis, space: 80, size: 30, values: (_, at) => at.map(clock) },
        { ...axis, size: 64, values: (_, at) => at.map(measure) },
      ],
      series: [{}, { stroke: () => colourOf("--accent"), width: 2, points: { show: false } }],
      hooks: { setCursor: [() => this.read()] },
    };
    this.plot = new uPlot(options, [this.times, this.values], this.box);
  }

  resize() {
    const width = this.box.clientWidth;
    if (this.plot && width) this.plot.setSize({ width, height: HEIGHT });
  }

  redraw() {
    this.plot?.redraw();
  }

  // The value under the cursor, or the newest.
  read() {
    const under = this.plot?.cursor.idx;
    const i = under ?? this.times.length - 1;
    if (i < 0 || this.times[i] === undefined) return;
    const when = under == null ? "now" : `at ${clock(this.times[i])}`;
    setText(this.readout, `${measure(this.values[i])} ${when}`);
  }

  press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step || !this.plot) return;
    event.preventDefault();
    this.readout.ariaLive = "polite"; // announce a requested value, but not each new one
    const last = this.times.length - 1;
    const from = this.plot.cursor.idx ?? last + 1;
    const to = Math.max(0, Math.min(last, from + step));
    this.plot.setCursor({ left: this.plot.valToPos(this.times[to], "x"), top: 0 });
  }

  leave() {
    this.readout.ariaLive = "off";
    this.plot?.setCursor({ left: -10, top: -10 });
  }
}
