// Positions for the nodes of a graph: equal graphs get equal positions.

const STEPS = 150; // iterations

// Distances between all pairs of nodes: [n][n]. Unconnected nodes are one step beyond the largest distance.
export function distances(count, edges) {
  const near = Array.from({ length: count }, () => []);
  for (const [a, b] of edges) {
    near[a].push(b);
    near[b].push(a);
  }
  const all = near.map((_, start) => {
    const steps = new Array(count).fill(Infinity);
    steps[start] = 0;
    const queue = [start];
    for (const node of queue) {
      for (const next of near[node]) {
        if (steps[next] === Infinity) {
          steps[next] = steps[node] + 1;
          queue.push(next);
        }
      }
    }
    return steps;
  });
  const far = Math.max(1, ...all.map((steps) => Math.max(...steps.filter(Number.isFinite)))) + 1;
  return all.map((steps) => steps.map((value) => Math.min(value, far)));
}

// Classical scaling: the two main axes of the squared distances, by power iteration. Unlike a random
// start, it unfolds grids and rings.
function unfold(steps) {
  const n = steps.length;
  const squares = steps.map((row) => row.map((value) => value * value));
  const means = squares.map((row) => row.reduce((sum, value) => sum + value, 0) / n);
  const mean = means.reduce((sum, value) => sum + value, 0) / n;
  const inner = squares.map((row, i) =>
    row.map((value, j) => (means[i] + means[j] - mean - value) / 2));
  const axes = [];
  for (const phase of [1, 2]) {
    let axis = steps.map((_, i) => Math.sin((i + 1) * phase * 1.7));
    for (let step = 0; step < STEPS; step++) {
      for (const other of axes) {
        const along = dot(axis, other.unit);
        axis = axis.map((value, i) => value - along * other.unit[i]);
      }
      const length = Math.hypot(...axis) || 1;
      const unit = axis.map((value) => value / length);
      axis = inner.map((row) => dot(row, unit));
      axes[phase - 1] = { unit, size: Math.sqrt(Math.max(0, dot(axis, unit))) };
    }
  }
  const [x, y] = axes.map(({ unit, size }) => unit.map((value) => value * size));
  // A path has one axis only; a small second one lets its nodes move past each other.
  return x.map((value, i) => [value, y[i] + 0.01 * Math.sin(i * 2.4)]);
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

// Stress majorisation: moves distances on the page towards distances in the graph.
function relax(points, steps) {
  for (let step = 0; step < STEPS; step++) {
    points = points.map(([x, y], i) => {
      let [left, top, weights] = [0, 0, 0];
      points.forEach(([u, v], j) => {
        if (i === j) return;
        const weight = steps[i][j] ** -2;
        const stretch = steps[i][j] / (Math.hypot(x - u, y - v) || 1e-9);
        left += weight * (u + (x - u) * stretch);
        top += weight * (v + (y - v) * stretch);
        weights += weight;
      });
      return weights ? [left / weights, top / weights] : [x, y];
    });
  }
  return points;
}

export function place(count, edges) {
  const steps = distances(count, edges);
  return readFromTheTopLeft(turned(relax(unfold(steps), steps), edges));
}

const ROUND = 0.9; // the least ratio of both variances for shapes without a main direction

// Squares and rings have no main axis, so that unfolding returns any angle. Rotate them so that the
// first edge is level.
function turned(points, edges) {
  if (!edges.length) return points;
  const [xx, yy, xy] = [[0, 0], [1, 1], [0, 1]].map(([i, j]) => {
    const [a, b] = [i, j].map((axis) => middled(points.map((point) => point[axis])));
    return dot(a, b);
  });
  const spread = Math.hypot((xx - yy) / 2, xy);
  if ((xx + yy) / 2 - spread < ROUND * ((xx + yy) / 2 + spread)) return points;
  const [[a, b], [c, d]] = edges[0].map((node) => points[node]);
  const length = Math.hypot(c - a, d - b) || 1;
  const [cos, sin] = [(c - a) / length, (d - b) / length];
  return points.map(([x, y]) => [x * cos + y * sin, y * cos - x * sin]);
}

// Mirror the points so that the first node is above and left of the middle, where reading begins.
function readFromTheTopLeft(points) {
  const [x, y] = [0, 1].map((axis) => {
    const values = middled(points.map((point) => point[axis]));
    return values[0] > 0 ? values.map((value) => -value) : values;
  });
  return x.map((value, i) => [value, y[i]]);
}

function middled(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
}

const CLOSEST = 24; // px between two nodes, so that their numbers are readable
const FARTHEST = 70;
const THIN = 0.1; // the largest ratio of height to width that is laid out in rows
const STRETCH = 0.4; // the least ratio of height to width that is stretched over the whole box

// Fit points into a box of this size in px. Returns { points, apart }: no two points are closer than
// `apart` px if there is room.
export function fit(points, width, height, margin) {
  const roomy = Math.min(FARTHEST, 0.8 * Math.sqrt((width * height) / points.length));
  const [wide, high] = spans(points);
  const thin = points.length * roomy > width && Math.min(wide, high) < THIN * Math.max(wide, high);
  const shape = thin ? inRows(points, wide > high ? 0 : 1, width, height) : points;
  const least = STRETCH * Math.max(...spans(shape), 1e-6);
  const xs = scaled(shape.map(([x]) => x), least, width, margin);
  const ys = scaled(shape.map(([, y]) => y), least, height, margin);
  const apart = Math.max(CLOSEST, Math.min(roomy, usualGap(xs, ys)));
  pushApart(xs, ys, apart, width, height, margin);
  return { points: xs.map((x, i) => [x, ys[i]]), apart };
}

const spans = (points) => [0, 1].map((axis) => {
  const values = points.map((point) => point[axis]);
  return Math.max(...values) - Math.min(...values);
});

// Scale values to the space between the margins, or around the middle if they span less than `least`.
function scaled(values, least, size, margin) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const range = Math.max(high - low, least);
  return values.map((value) => size / 2 + ((value - (low + high) / 2) / range) * (size - 2 * margin));
}

// Fold a long chain: to the right, back to the left, and so on.
function inRows(points, axis, width, height) {
  const row = Math.ceil(Math.sqrt((points.length * width) / height));
  const order = points.map((_, i) => i).sort((a, b) => points[a][axis] - points[b][axis]);
  const places = [];
  order.forEach((node, i) => {
    const [down, along] = [Math.floor(i / row), i % row];
    places[node] = [down % 2 ? row - 1 - along : along, down];
  });
  return places;
}

// The median distance to the nearest node.
function usualGap(xs, ys) {
  const gaps = xs.map((x, i) =>
    Math.min(...xs.map((u, j) => (i === j ? Infinity : Math.hypot(x - u, ys[i] - ys[j])))));
  return gaps.sort((a, b) => a - b)[gaps.length >> 1];
}

function pushApart(xs, ys, apart, width, height, margin) {
  const inside = (value, size) => Math.max(margin, Math.min(size - margin, value));
  for (let step = 0; step < STEPS; step++) {
    for (let i = 0; i < xs.length; i++) {
      for (let j = 0; j < i; j++) {
        const [dx, dy] = [xs[i] - xs[j], ys[i] - ys[j]];
        const distance = Math.hypot(dx, dy) || 1e-9;
        if (distance >= apart) continue;
        const push = (apart - distance) / 2 / distance;
        [xs[i], xs[j]] = [inside(xs[i] + dx * push, width), inside(xs[j] - dx * push, width)];
        [ys[i], ys[j]] = [inside(ys[i] + dy * push, height), inside(ys[j] - dy * push, height)];
      }
    }
  }
}

// Place points around the middle, in up to three rings; the first point is the middle.
export function around(count, width, height, margin) {
  const middle = [width / 2, height / 2];
  const rings = count > 36 ? [1, 0.72, 0.45] : count > 16 ? [1, 0.65] : [1];
  const others = Array.from({ length: count }, (_, i) => {
    const angle = (i / count) * 2 * Math.PI - Math.PI / 2;
    const ring = rings[i % rings.length];
    return [
      middle[0] + Math.cos(angle) * ring * (width / 2 - margin[0]),
      middle[1] + Math.sin(angle) * ring * (height / 2 - margin[1]),
    ];
  });
  return [middle, ...others];
}
