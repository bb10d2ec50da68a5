// What all charts share. Colour and dash together mark a model, so that neither is needed alone.

const dashes = [[7, 4], [2, 3], [11, 3, 2, 3], [], [14, 5], [5, 2], [2, 2, 7, 2], [9, 2]];
const parts = [
  {key: 'compute', name: 'Computing'},
  {key: 'communicate', name: 'Communicating'},
  {key: 'wait', name: 'Waiting'},
];
const charts = new Map();

const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const modelColour = (model) => colour(`series-${model % 8}`);
const modelDash = (model) => dashes[(model + Math.floor(model / 8)) % 8];

function draw(id, description, config) {
  charts.get(id)?.destroy();
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
