// The learning curves of a comparison.

// Whether the curves are of held-out data; else of what the workers trained on, without accuracy.
const heldOut = () => report.runs.some((run) => run.evaluations.accuracy.some(known));

// One line a run. `x` and `y` name arrays of report.runs[].evaluations.
function curveDatasets(x, y, scale) {
  return report.runs.map(
      (run) => ({
        label: shorten(report.models[run.model].title, 32),
        data: run.evaluations[x].map((value, i) => ({x: value / scale, y: run.evaluations[y][i]})),
        borderColor: modelColour(run.model) + (run.typical ? '' : '59'),
        backgroundColor: modelColour(run.model),
        borderDash: modelDash(run.model),
        borderWidth: run.typical ? 2.5 : 1,
        pointRadius: 0,
        pointHitRadius: 6,
        order: run.typical ? 1 : 2,
        model: run.model,
        marks: run.typical ? markedPoints(run.evaluations[x].length, run.model) : null,
        run,
      }));
}

function targetDatasets(y, target, start, end, scale, withDots) {
  if (!known(target)) return [];
  const line = {
    label: `target ${
        y === 'loss' || !report.figure.percent ? target :
                                                 `${Number((100 * target).toPrecision(4))} %`}`,
    data: [{x: start, y: target}, {x: end, y: target}],
    borderColor: colour('target'),
    borderWidth: 1.5,
    borderDash: [4, 4],
    pointRadius: 0,
    pointHitRadius: 0,
    pointStyle: 'line',
    order: 3,
  };
  const arrived = report.runs.filter((run) => run.typical && known(run.time_to_target));
  const dots = arrived.map((run) => ({
                             data: [{x: run.time_to_target / scale, y: target}],
                             backgroundColor: modelColour(run.model),
                             borderColor: colour('card'),
                             borderWidth: 1.5,
                             pointRadius: 5.5,
                             order: 0,
                             run,
                             dot: true,
                           }));
  return withDots ? [line, ...dots] : [line];
}

// Loss on a logarithmic axis, so that its first seconds do not flatten the rest; nor must a run
// that diverges, so the axis ends a little above where training starts.
function lossAxis() {
  const losses = report.runs.flatMap((run) => run.evaluations.loss.filter(known));
  const starts = report.runs.flatMap((run) => run.evaluations.loss.filter(known).slice(0, 1));
  const largest = (values) => values.reduce((a, b) => Math.max(a, b), 0);
  const lowest = losses.reduce((a, b) => Math.min(a, b), report.target_loss ?? Infinity);
  const title = heldOut() ? 'Held-out loss' : 'Training loss';
  if (!(lowest > 0) || !known(lowest)) return axis(title);
  const min = 0.95 * lowest;
  const max = Math.min(1.05 * largest(losses), 1.5 * largest(starts));
  const marks = (mantissas) => {
    const powers = [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5];
    const values = powers.flatMap((power) => mantissas.map((mantissa) => mantissa * 10 ** power));
    return values.filter((value) => value >= min && value <= max).map((value) => ({value}));
  };
  const fine = marks([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]);
  const ticks = fine.length <= 12 ? fine : marks([1, 2, 5]);
  const lossTicks = {
    color: colour('soft'),
    callback: (value) => String(Number(value.toPrecision(2)))
  };
  return axis(`${title} (logarithmic)`, {
    type: 'logarithmic',
    min,
    max,
    ticks: lossTicks,
    afterBuildTicks: (scale) => {
      scale.ticks = ticks;
    }
  });
}

const longest = (x) =>
    report.runs.reduce((end, run) => Math.max(end, ...run.evaluations[x].slice(-1)), 0);

// A little after the instant at which half of the models have arrived; null where that is no
// shorter than the runs.
function targetEnd() {
  const times = report.models.map((model) => model.time_to_target).filter(known);
  if (times.length === 0) return null;
  times.sort((a, b) => a - b);
  const half = Math.min(times.length, Math.ceil(report.models.length / 2));
  const end = 1.15 * times[half - 1];
  return end < longest('seconds') ? end : null;
}

// Round times of a logarithmic axis, as people say them.
function timeTicks(min, max) {
  const times = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000, 86400];
  const fine = [0.001, 0.01, 0.1, ...times, 432000].filter((at) => at >= min && at <= max);
  return fine.map((value) => ({value}));
}

// From the first evaluation of a run after its start.
function logarithmicTime(end, unit) {
  const firsts = report.runs.map((run) => run.evaluations.seconds.find((at) => at > 0));
  const min = Math.min(...firsts.filter(known)) / unit.seconds;
  const plain = axis(`${timeName} (logarithmic)`, {type: 'logarithmic', min, max: 1.05 * end});
  plain.ticks.callback = (value) => shortDuration(value * unit.seconds);
  plain.afterBuildTicks = (scale) => {
    scale.ticks = timeTicks(min * unit.seconds, end * unit.seconds).map(({value}) => ({
                                                                value: value / unit.seconds
                                                              }));
  };
  return plain;
}

function drawCurves(id, x, y, withDots) {
  const overTime = x === 'seconds';
  const choice = overTime ? byId('time-axis').value : 'whole';
  const farthest = choice === 'target' ? targetEnd() ?? longest(x) : longest(x);
  const unit = overTime ? timeUnit(farthest) : {name: '', seconds: 1};
  const end = farthest / unit.seconds;
  const xTitle = overTime ? `${timeName} (${unit.name})` : 'Steps of all workers';
  const isLoss = y === 'loss';
  const inPercent = report.figure.percent;
  const formatX = (value) =>
      overTime ? formatDuration(value * unit.seconds) : `${formatCount(value)} steps`;
  const formatY = isLoss ? formatLoss : formatFigure;
  const xAxis = choice === 'logarithmic' ? logarithmicTime(end, unit) : endingAt(end, axis(xTitle));
  const yAxis = isLoss ? lossAxis() : axis(`Held-out ${report.figure.word}${inPercent ? ' (%)' : ''}`);
  if (!isLoss && inPercent) yAxis.ticks.callback = (value) => Number((100 * value).toFixed(1));
  if (!overTime) xAxis.ticks.callback = (value) => formatCount(value);
  const target = isLoss ? report.target_loss : report.target_accuracy;
  const toggle = (event, item, owner) => {
    const chosen = owner.chart.data.datasets[item.datasetIndex].run;
    if (!chosen) return;
    owner.chart.data.datasets.forEach((dataset, i) => {
      if (dataset.run?.model === chosen.model) owner.chart.setDatasetVisibility(i, item.hidden);
    });
    owner.chart.update();
  };
  // Chart.js cannot place 0 on a logarithmic axis.
  const start = choice === 'logarithmic' ? xAxis.min : 0;
  draw(id, `${yAxis.title.text} against ${xTitle.toLowerCase()}, one line a run`, {
    type: 'line',
    data: {
      datasets: [
        ...curveDatasets(x, y, unit.seconds),
        ...targetDatasets(y, target, start, end, unit.seconds, withDots)
      ]
    },
    plugins: [lineMarks],
    options: {
      interaction: {mode: 'nearest', axis: 'xy', intersect: false},
      scales: {x: xAxis, y: yAxis},
      plugins: {
        legend: {
          ...legend((item, data) => {
            const dataset = data.datasets[item.datasetIndex];
            return !dataset.dot && (!dataset.run || dataset.run.typical);
          }),
          onClick: toggle,
        },
        tooltip: tooltip({
          title: () => '',
          label: ({raw, dataset: {run, dot}}) => {
            if (!run) return null;
            const name = `${shorten(report.models[run.model].title, 32)}, seed ${run.seed}`;
            return dot ? `${name}: target reached after ${formatX(raw.x)}` :
                         `${name}: ${formatY(raw.y)} at ${formatX(raw.x)}`;
          },
        }),
      },
    },
  });
}
