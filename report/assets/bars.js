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

function line(ctx, horizontal, place, low, high) {
  ctx.beginPath();
  const to = (x, y, begin) => begin ? ctx.moveTo(x, y) : ctx.lineTo(x, y);
  const at = (along, across, begin) =>
      horizontal ? to(along, across, begin) : to(across, along, begin);
  at(low, place, true);
  at(high, place);
  for (const end of [low, high]) {
    at(end, place - 3, true);
    at(end, place + 3);
  }
  ctx.stroke();
}

// Lines from the lowest to the highest seed, and what a number cannot show: runs that never
// arrived.
const ranges = {
  id: 'ranges',
  afterDatasetsDraw(chart) {
    const {ctx, chartArea: area, scales} = chart;
    ctx.save();
    ctx.font = `600 11px ${Chart.defaults.font.family}`;
    ctx.textAlign = 'center';
    chart.data.datasets.forEach((dataset, index) => {
      if (!chart.isDatasetVisible(index) || !dataset.ranges) return;
      const horizontal = chart.options.indexAxis === 'y';
      const scale = horizontal ? scales.x : scales.y;
      chart.getDatasetMeta(index).data.forEach((mark, i) => {
        const range = dataset.ranges[i];
        if (!range) return;
        const place = horizontal ? mark.y : mark.x;
        ctx.strokeStyle = ctx.fillStyle = dataset.rangeColour ?? dataset.borderColor;
        ctx.lineWidth = 1.5;
        const low = known(range.min) ? scale.getPixelForValue(range.min) : null;
        const most = horizontal ? area.right : area.top;
        const high = known(range.max) ? scale.getPixelForValue(range.max) : most;
        if (low !== null && Math.abs(high - low) > 1) line(ctx, horizontal, place, low, high);
        if (range.reached === range.runs) return;
        const text = known(range.median) ? `${range.reached}/${range.runs}` :
                                           `\u2715 ${range.reached}/${range.runs}`;
        if (horizontal) {
          ctx.textAlign = 'left';
          ctx.fillText(
              text, known(range.median) ? scale.getPixelForValue(range.median) + 6 : area.left + 6,
              place + 4);
        } else {
          ctx.fillText(
              text, place, known(range.median) ? mark.y - 8 : area.top + 12 + 12 * (index % 4));
        }
      });
    });
    ctx.restore();
  },
};
