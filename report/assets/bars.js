// Horizontal bars: parts of a whole, or one value each.

// Waiting is hatched as well as coloured.
function partFill(part) {
  if (part.key !== 'wait') return colour(part.key);
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const context = tile.getContext('2d');
  context.fillStyle = colour('wait');
  context.fillRect(0, 0, 8, 8);
  context.strokeStyle = 'rgba(16, 21, 28, .28)';
  for (const shift of [-8, 0, 8]) {
    context.moveTo(shift, 8);
    context.lineTo(shift + 8, 0);
  }
  context.stroke();
  return context.createPattern(tile, 'repeat');
}

function setHeight(id, rows, rowHeight) {
  byId(id).style.height = `${Math.max(150, rows * rowHeight + 95)}px`;
}

// Writes each value into its bar where there is room.
const barLabels = (format) => ({
  id: 'barLabels',
  afterDatasetsDraw(chart) {
    const context = chart.ctx;
    context.save();
    context.font = `600 12px ${Chart.defaults.font.family}`;
    context.fillStyle = colour('on-bar');
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const {data, index} of chart.getSortedVisibleDatasetMetas()) {
      data.forEach((bar, row) => {
        const dataset = chart.data.datasets[index];
        const text = format(dataset.data[row], dataset, row);
        const {x, y, base} = bar.getProps(['x', 'y', 'base']);
        if (x - base > context.measureText(text).width + 10)
          context.fillText(text, (x + base) / 2, y);
      });
    }
    context.restore();
  },
});

// As in the style sheet: no chart has a neighbour.
const narrow = matchMedia('(max-width: 52rem)');

// Horizontal bars, one a label.
function drawBars(id, description, labels, datasets, {xAxis, legendBox, label, plugins = []}) {
  draw(id, description, {
    type: 'bar',
    data: {labels: labels.map((text) => shorten(text, 22)), datasets},
    plugins,
    options: {
      indexAxis: 'y',
      interaction: {mode: 'index', axis: 'y', intersect: false},
      layout: {padding: {top: legendBox || narrow.matches ? 0 : 30}},  // level with a neighbour that has a legend
      scales: {
        // A long chart scrolls: its axis is on top, where it is seen first.
        x: {...xAxis, stacked: true, position: labels.length > 20 ? 'top' : 'bottom'},
        y: {
          stacked: true,
          grid: {display: false, borderColor: colour('line')},
          ticks: {color: colour('ink')}
        },
      },
      plugins: {
        legend: legendBox ?? {display: false},
        tooltip: tooltip({title: ([item]) => labels[item.dataIndex], label}),
      },
    },
  });
}

function drawParts(id, description, labels, values, xAxis, format, plugins) {
  const datasets = parts.map((part) => ({
                               label: part.name,
                               data: values.map((value) => value[part.key]),
                               backgroundColor: partFill(part),
                               borderColor: colour('card'),
                               borderWidth: {right: 1},
                               pointStyle: 'rect',
                               maxBarThickness: 34,
                             }));
  const legendBox = legend();
  legendBox.labels.pointStyleWidth = 14;
  const label = ({raw, dataset}) => `${dataset.label}: ${format(raw)}`;
  drawBars(id, description, labels, datasets, {xAxis, legendBox, label, plugins});
}
