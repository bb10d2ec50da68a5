// Bars of time shares, the charts of single workers and of what a tuner chose.

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
        const text = format(chart.data.datasets[index].data[row]);
        const {x, y, base} = bar.getProps(['x', 'y', 'base']);
        if (x - base > context.measureText(text).width + 10)
          context.fillText(text, (x + base) / 2, y);
      });
    }
    context.restore();
  },
});

// Horizontal bars, one a label.
function drawBars(id, description, labels, datasets, {xAxis, legendBox, label, plugins = []}) {
  draw(id, description, {
    type: 'bar',
    data: {labels: labels.map((text) => shorten(text, 22)), datasets},
    plugins,
    options: {
      indexAxis: 'y',
      interaction: {mode: 'index', axis: 'y', intersect: false},
      layout: {padding: {top: legendBox ? 0 : 30}},  // level with a neighbour that has a legend
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

function drawShares() {
  setHeight('shares-box', report.models.length, 44);
  const xAxis = axis('Share of time (%)', {min: 0, max: 1});
  xAxis.ticks.callback = (value) => Math.round(100 * value);
  drawParts(
      'shares', 'Computing, communicating and waiting shares of every model',
      report.models.map((model) => model.title), report.models.map((model) => model.shares), xAxis,
      formatPercent, [barLabels(formatPercent)]);
}

const rowHeight = (count) => count <= 12 ? 30 : count <= 40 ? 20 : 15;
const workerNames = (run) => run.workers.map((worker) => worker.id);

function drawWorkerTime(run) {
  setHeight('worker-time-box', run.workers.length, rowHeight(run.workers.length));
  const unit = timeUnit(run.seconds);
  const xAxis = axis(`${timeName} (${unit.name})`);
  xAxis.ticks.callback = (value) => Number((value / unit.seconds).toFixed(2));
  xAxis.ticks.stepSize = niceStep(run.seconds / unit.seconds) * unit.seconds;
  drawParts(
      'worker-time', 'Computing, communicating and waiting time of every worker', workerNames(run),
      run.workers, xAxis, formatDuration, []);
}

function drawWorkerCommits(run) {
  setHeight('worker-commits-box', run.workers.length, rowHeight(run.workers.length));
  const dataset = {
    data: run.workers.map((worker) => worker.commits),
    backgroundColor: modelColour(run.model),
    maxBarThickness: 34,
  };
  const label = ({
    raw,
    dataIndex
  }) => [`${formatCount(raw)} commits`, `${formatCount(run.workers[dataIndex].steps)} steps`];
  drawBars(
      'worker-commits', 'Commits of every worker', workerNames(run), [dataset],
      {xAxis: axis('Commits', {beginAtZero: true}), label});
}

// Few workers: the models' colours and dashes. Many: from dark to bright by speed, no legend.
function workerLine(run, index, speedRank) {
  const count = run.workers.length;
  if (count <= 8) {
    const own = colour(`series-${index}`);
    return {borderColor: own, backgroundColor: own, borderDash: dashes[index], borderWidth: 2};
  }
  const lightness = document.documentElement.classList.contains('dark') ? 62 : 42;
  const shade = `hsl(${265 - 215 * speedRank / (count - 1)}, 65%, ${lightness}%)`;
  return {borderColor: shade, backgroundColor: shade, borderWidth: 1.25};
}

function drawCommitsOverTime(run) {
  const {seconds, commits} = run.commit_counts;
  byId('commits-time-figure').hidden = seconds.length === 0;
  if (seconds.length === 0) return;
  const unit = timeUnit(run.seconds);
  const slowestFirst =
      run.workers.map((worker, i) => i)
          .sort((a, b) => run.workers[b].step_seconds - run.workers[a].step_seconds);
  const datasets = run.workers.map(
      (worker, i) => ({
        label: shorten(worker.id, 22),
        data: seconds.flatMap(
            (at, row) =>
                known(commits[row][i]) ? [{x: at / unit.seconds, y: commits[row][i]}] : []),
        ...workerLine(run, i, slowestFirst.indexOf(i)),
        pointRadius: 0,
        pointStyle: 'line',
      }));
  const many = run.workers.length > 8;
  draw('commits-time', 'Commits of every worker over time, one line a worker', {
    type: 'line',
    data: {datasets},
    options: {
      interaction: {mode: 'nearest', axis: 'xy', intersect: false},
      scales: {
        x: endingAt(run.seconds / unit.seconds, axis(`${timeName} (${unit.name})`)),
        y: axis('Commits so far', {beginAtZero: true}),
      },
      plugins: {
        legend: many ? {display: false} : legend(),
        subtitle: {
          display: many,
          align: 'start',
          color: colour('soft'),
          padding: {bottom: 8},
          text: 'Slowest worker violet, fastest orange; point at a line for its name'
        },
        tooltip: tooltip({
          title: () => '',
          label: ({raw, datasetIndex}) => `${run.workers[datasetIndex].id}: ${
              formatCount(raw.y)} commits at ${formatDuration(raw.x * unit.seconds)}`,
        }),
      },
    },
  });
}

function drawDecisions(run) {
  const unit = timeUnit(run.seconds);
  const points = run.decisions.map(
      ({seconds, value, reason}) => ({x: seconds / unit.seconds, y: value, reason}));
  const quantity = run.decisions[0].quantity;
  const last = points[points.length - 1];
  const held = {x: run.seconds / unit.seconds, y: last.y, reason: 'end of the run'};
  const isChange = points.map((point, i) => i === 0 || point.y !== points[i - 1].y);
  draw('decisions-chart', `${quantity} over time, a step at every decision`, {
    type: 'line',
    data: {
      datasets: [{
        data: [...points, held],
        stepped: 'before',
        borderColor: modelColour(run.model),
        borderWidth: 2,
        backgroundColor: modelColour(run.model),
        pointRadius: [...isChange.map((change) => change ? 4 : 2), 0],
        pointHitRadius: 8,
      }],
    },
    options: {
      interaction: {mode: 'nearest', axis: 'x', intersect: false},
      scales: {
        x: endingAt(run.seconds / unit.seconds, axis(`${timeName} (${unit.name})`)),
        y: axis(
            quantity,
            {beginAtZero: true, grace: '8%', ticks: {color: colour('soft'), precision: 0}}),
      },
      plugins: {
        legend: {display: false},
        tooltip: tooltip({
          title: () => '',
          label: ({raw}) =>
              [`${formatValue(raw.y)} at ${formatDuration(raw.x * unit.seconds)}`,
               ...wrap(raw.reason, 48)],
        }),
      },
    },
  });
}
