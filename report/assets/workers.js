// Bars of time shares, the charts of single workers and of what a tuner chose.

function drawShares() {
  setHeight('shares-box', report.models.length, 44);
  const xAxis = axis('Share of time (%)', {min: 0, max: 1});
  xAxis.ticks.callback = (value) => Math.round(100 * value);
  drawParts(
      'shares', 'Computing, communicating and waiting shares of every model',
      report.models.map((model) => model.title), report.models.map((model) => model.shares), xAxis,
      formatPercent, [barLabels(formatPercent)]);
}

// Kinds of activities on critical paths, and their colours.
const pathKinds = [
  {what: 'computing', name: 'Computing', fill: 'compute'},
  {what: 'uplink', name: 'Uplink', fill: 'communicate'},
  {what: 'downlink', name: 'Downlink', fill: 'downlink'},
  {what: 'latency', name: 'Latency', fill: 'latency'},
  {what: 'applying', name: 'Applying at servers', fill: 'applying'},
  {what: 'timers', name: 'Timers', fill: 'timers'},
  {what: 'absence', name: 'Absence', fill: 'wait'},
];
const leastPart = 0.01;  // smaller parts of a kind are one

// The parts of one kind in a path, largest first.
function partsOfKind(path, what) {
  const all = path.filter((part) => part.what === what);
  const large = all.filter((part) => part.share >= leastPart);
  const rest = all.slice(large.length);
  if (rest.length === 0) return large;
  const share = rest.reduce((sum, part) => sum + part.share, 0);
  return [...large, {node: `${rest.length} smaller`, what, share}];
}

const pathModels = () => report.models.filter((model) => model.path.length > 0);

function drawPaths() {
  const models = pathModels();
  byId('path-section').hidden = models.length === 0;
  if (models.length === 0) return;
  setHeight('paths-box', models.length, 44);
  const xAxis = axis('Share of the critical path (%)', {min: 0, max: 1});
  xAxis.ticks.callback = (value) => Math.round(100 * value);
  const datasets = pathKinds.flatMap(({what, name, fill}) => {
    const rows = models.map((model) => partsOfKind(model.path, what));
    return Array.from({length: most([0, ...rows.map((row) => row.length)])}, (_, rank) => ({
      label: name,
      rank,
      nodes: rows.map((row) => row[rank]?.node),
      data: rows.map((row) => row[rank]?.share ?? 0),
      backgroundColor: colour(fill),
      borderColor: colour('card'),
      borderWidth: {right: 1},
      pointStyle: 'rect',
      maxBarThickness: 34,
    }));
  });
  const legendBox = legend((item, data) => data.datasets[item.datasetIndex].rank === 0);
  legendBox.labels.pointStyleWidth = 14;
  const label = ({raw, dataset, dataIndex}) =>
      raw > 0 ? `${dataset.nodes[dataIndex]}, ${dataset.label}: ${formatPercent(raw)}` : '';
  const inBar = (share, dataset, row) => share > 0 ? dataset.nodes[row] : '';
  drawBars(
      'paths', 'Parts of the critical path of every model', models.map((model) => model.title),
      datasets, {xAxis, legendBox, label, plugins: [barLabels(inBar)]});
  byId('path-texts').replaceChildren(
      ...models.map((model) => element('li', {}, `${model.title}: ${model.path_text}`)));
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
      {xAxis: countAxis('Commits'), label});
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
        y: countAxis('Commits so far'),
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
