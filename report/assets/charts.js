// What all charts share. Each model has its own colour, mark and dash, the same in every report.

const dashes = [[7, 4], [2, 3], [11, 3, 2, 3], [], [14, 5], [5, 2], [2, 2, 7, 2], [9, 2]];
const parts = [
  {key: 'compute', name: 'Computing'},
  {key: 'communicate', name: 'Communicating'},
  {key: 'wait', name: 'Waiting'},
];
const charts = new Map();

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const isDark = () => document.documentElement.classList.contains('dark');
const styleOf = (model) => (report.models ?? report.contenders)[model].style;
const modelColour = (model) => isDark() ? styleOf(model).dark : styleOf(model).light;
const modelDash = (model) => styleOf(model).dash.split(' ').filter(Boolean).map(Number);

// Draws the mark of a model around (x, y).
function paintMark(context, model, x, y) {
  const path = new Path2D(styleOf(model).mark);
  context.save();
  context.translate(x, y);
  context.setLineDash([]);
  context.lineWidth = 1.6;
  context.strokeStyle = modelColour(model);
  context.fillStyle = styleOf(model).hollow ? colour('card') : modelColour(model);
  context.fill(path);
  context.stroke(path);
  context.restore();
}

// Marks on the lines of datasets that have `model` and `marks`, the indices of marked points.
const lineMarks = {
  id: 'lineMarks',
  afterDatasetsDraw(chart) {
    const {left, right, top, bottom} = chart.chartArea;
    chart.data.datasets.forEach(({model, marks}, index) => {
      if (!marks || !chart.isDatasetVisible(index)) return;
      const points = chart.getDatasetMeta(index).data;
      for (const i of marks) {
        const point = points[i];
        if (!point || point.skip || !(point.x >= left && point.x <= right)) continue;
        if (point.y >= top && point.y <= bottom) paintMark(chart.ctx, model, point.x, point.y);
      }
    });
  },
};

// About eight points of a line, at other places for each model so that marks do not hide others.
function markedPoints(count, model) {
  const step = Math.max(1, Math.round(count / 8));
  const first = Math.round(step * ((model * 0.382) % 1));
  return Array.from({length: Math.ceil((count - first) / step)}, (_, i) => first + i * step);
}

// A legend's sample: the line of a model and its mark, or a square of its colour and the mark.
function sample(model, dash, square) {
  const canvas = document.createElement('canvas');
  canvas.width = 34;
  canvas.height = 14;
  const context = canvas.getContext('2d');
  context.strokeStyle = context.fillStyle = modelColour(model);
  context.lineWidth = 2;
  context.setLineDash(dash);
  if (square) context.fillRect(0, 2, 14, 10);
  if (!square) context.stroke(new Path2D('M0 7h34'));
  paintMark(context, model, square ? 26 : 17, 7);
  return canvas;
}

// A line of a chart that the reader may hide, with all that belongs to it.
const lineOf = ({run, label}) => run ? run.model : label;

function draw(id, description, config) {
  const earlier = charts.get(id);
  const hidden = (earlier?.data.datasets ?? []).filter((_, i) => !earlier.isDatasetVisible(i));
  const keys = new Set(hidden.map(lineOf));
  for (const dataset of config.data.datasets) dataset.hidden = keys.has(lineOf(dataset));
  earlier?.destroy();
  const canvas = byId(id);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', description);
  const chart = {animation: false, maintainAspectRatio: false, responsive: true};
  config.options = Object.assign(chart, config.options);
  charts.set(id, new Chart(canvas, config));
}

function axis(title, extra = {}) {
  return {
    title: {display: true, text: title, color: colour('soft')},
    grid: {color: colour('grid'), borderColor: colour('line')},
    ticks: {color: colour('soft'), maxRotation: 0, autoSkipPadding: 12},
    ...extra,
  };
}

// From 0, with marks at whole numbers.
function countAxis(title) {
  const plain = axis(title, {beginAtZero: true});
  plain.ticks.precision = 0;
  return plain;
}

// A linear axis from 0 to just behind `end`, with round marks only.
function endingAt(end, plain) {
  const ticks = {...plain.ticks, includeBounds: false};
  return {...plain, type: 'linear', min: 0, max: 1.02 * end || 1, ticks};
}

// Chart.js leaves the dashes out of a legend made of lines.
function generateLabels(chart) {
  const items = Chart.defaults.plugins.legend.labels.generateLabels(chart);
  return items.map((item) => {
    const {borderColor, borderDash} = chart.data.datasets[item.datasetIndex];
    const {model, bar} = chart.data.datasets[item.datasetIndex];
    if (model !== undefined) return {...item, pointStyle: sample(model, borderDash ?? [], bar)};
    return borderDash ? {...item, strokeStyle: borderColor, lineDash: borderDash, lineWidth: 2} :
                        item;
  });
}

function legend(filter) {
  return {
    position: 'top',
    align: 'start',
    labels: {
      color: colour('ink'),
      filter,
      usePointStyle: true,
      pointStyleWidth: 34,
      boxHeight: 7,
      generateLabels
    },
  };
}

const tooltip = (callbacks) => ({callbacks, boxPadding: 4, padding: 8});

Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;

// The same proportions on paper whatever the window's width; the style sheet fits them in.
function fitToPaper() {
  for (const chart of charts.values())
    chart.resize(chart.canvas.closest('.wide') ? 1000 : 490, chart.height);
}
