// Values since the page was opened.

const LONGEST = 900; // seconds
const SHORTEST_WINDOW = 60;
const GAP = 3; // seconds without a sample that leave a gap in curves

// Values over time, in columns; null for unknown values.
export class Track {
  constructor(...columns) {
    this.columns = ["times", ...columns];
    this.clear();
  }

  clear() {
    for (const column of this.columns) this[column] = [];
  }

  // time: seconds since 1970, by this browser's steady clock.
  push(time, ...values) {
    const last = this.times.at(-1);
    if (time - last > GAP) this.append(last + GAP / 2, ...values.map(() => null));
    this.append(time, ...values);
    while (this.times[0] < time - LONGEST) for (const column of this.columns) this[column].shift();
  }

  append(...row) {
    this.columns.forEach((column, i) => this[column].push(row[i]));
  }

  // The index of the newest sample at a time; -1 if there is none.
  at(time) {
    let [low, high] = [0, this.times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    const i = low - 1;
    return i >= 0 && this[this.columns[1]][i] !== null && time - this.times[i] <= GAP ? i : -1;
  }

  // Start and end of the curves, in seconds since 1970.
  get window() {
    const end = (this.times.at(-1) ?? 0) + 1;
    return [Math.min(end - SHORTEST_WINDOW, this.times[0] ?? end), end];
  }
}

export class AgentHistory extends Track {
  constructor() {
    super("distributions", "disagreement", "rate");
    this.arms = "";
    this.before = null;
  }

  add(status, time) {
    const arms = JSON.stringify(status.arms);
    if (arms !== this.arms) this.clear();
    this.arms = arms;
    const rate = choicesPerSecond(this.before, status);
    this.push(time, Float32Array.from(status.probabilities), status.disagreement, rate);
    this.before = { rounds: status.rounds, uptime: status.uptime };
  }
}

// By the agent's own clock, because delayed events may arrive together.
function choicesPerSecond(before, now) {
  const seconds = before ? now.uptime - before.uptime : 0;
  const choices = before ? now.rounds - before.rounds : 0;
  return seconds > 0 && choices >= 0 ? choices / seconds : null; // otherwise the agent has restarted
}
