// The learning curves of runs: of one comparison, of several, or of a point of a study. A set of
// them is {runs, name(run), target: {loss, accuracy}}.

// Whether the curves are of held-out data; else of what the workers trained on, without accuracy.
const heldOut = ({runs}) => runs.some((run) => run.evaluations.accuracy.some(known));

// The loss or the accuracy of a run, as measured or as the target is judged.
const plotted = (run, y) => run.evaluations[byId('smooth').checked ? `mean_${y}` : y];

// One line a run. `x`: an array of the evaluations.
function curveDatasets(set, x, y, scale) {
  return set.runs.map(
      (run) => ({
        label: shorten(set.name(run), 32),
        data: run.evaluations[x].map((value, i) => ({x: value / scale, y: plotted(run, y)[i]})),
        borderColor: modelColour(run.model) + (run.typical ? '' : '59'),
        backgroundColor: modelColour(run.model),
        borderDash: modelDash(run.model),
        borderWidth: run.typical ? (byId('smooth').checked ? 2.5 : 1.75) : 1,
        pointRadius: 0,
        pointHitRadius: 6,
        order: run.typical ? 1 : 2,
        model: run.model,
        marks: run.typical ? markedPoints(run.evaluations[x].length, run.model) : null,
        run,
      }));
}

function targetDatasets(set, y, start, end, scale, withDots) {
  const target = set.target[y];
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
  const arrived = set.runs.filter((run) => run.typical && known(run.time_to_target));
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

// Logarithmic, so that the first seconds do not flatten the rest; linear where all losses are so
// near to each other that it would have three marks at most. Nor must a run that diverges flatten
// it, so the axis ends a little above where training starts.
function wholeLossAxis(set, title) {
  const losses = set.runs.flatMap((run) => plotted(run, 'loss').filter(known));
  const starts = set.runs.flatMap((run) => plotted(run, 'loss').filter(known).slice(0, 1));
  const lowest = Math.min(least(losses), set.target.loss ?? Infinity);
  if (!(lowest > 0) || !known(lowest)) return axis(title);
  const min = 0.95 * lowest;
  const max = Math.min(1.05 * most(losses), 1.5 * most(starts));
  const marks = (mantissas) => {
    const powers = [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5];
    const values = powers.flatMap((power) => mantissas.map((mantissa) => mantissa * 10 ** power));
    return values.filter((value) => value >= min && value <= max).map((value) => ({value}));
  };
  const fine = marks([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]);
  const ticks = fine.length <= 12 ? fine : marks([1, 2, 5]);
  if (fine.length < 4) {
    const plain = axis(title, {min, max});
    plain.ticks.includeBounds = false;
    plain.ticks.callback = (value) => String(Number(value.toPrecision(4)));
    return plain;
  }
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

// Of sorted values.
const quantile = (values, share) => values[Math.round(share * (values.length - 1))];

// Where the values of all runs lie after the first fifth of each, in which they change most. A few
// values may lie beyond, and so may a run that diverges. Null: that is hardly less than everything.
function laterRange(set, y) {
  const lows = [], highs = [], all = [];
  for (const run of set.runs) {
    const {seconds} = run.evaluations;
    const values = plotted(run, y);
    const there = values.filter(known);
    all.push(...there);
    const late = values.filter((value, i) => known(value) && seconds[i] >= 0.2 * seconds.at(-1));
    if (late.length === 0 || (y === 'loss' && there.at(-1) > there[0])) continue;
    late.sort((a, b) => a - b);
    lows.push(y === 'loss' ? late[0] : quantile(late, 0.05));
    highs.push(y === 'loss' ? quantile(late, 0.95) : late.at(-1));
  }
  if (lows.length === 0) return null;
  const aims = [set.target[y]].filter(known);
  const low = least([...lows, ...aims]), high = most([...highs, ...aims]);
  if (!(high > low) || most(all) - least(all) < 1.5 * (high - low)) return null;
  const margin = 0.04 * (high - low);
  return {min: low - margin, max: high + margin};
}

function valueAxis(set, y) {
  const isLoss = y === 'loss';
  const percent = !isLoss && report.figure.percent;
  const title = !isLoss    ? `Held-out ${report.figure.word}${percent ? ' (%)' : ''}` :
      heldOut(set) ? 'Held-out loss' :
                     'Training loss';
  const later = byId('value-axis').value === 'later' ? laterRange(set, y) : null;
  if (isLoss && !later) return wholeLossAxis(set, title);
  const plain = axis(title, later ?? {});
  if (later) plain.ticks.includeBounds = false;
  const scale = percent ? 100 : 1;
  plain.ticks.callback = (value) => String(Number((scale * value).toPrecision(4)));
  return plain;
}

const longest = (set, x) =>
    set.runs.reduce((end, run) => Math.max(end, ...run.evaluations[x].slice(-1)), 0);

// A little after the instant at which half of the models have arrived; null where that is no
// shorter than the runs.
function targetEnd(set) {
  const times = report.models.map((model) => model.time_to_target).filter(known);
  if (times.length === 0) return null;
  times.sort((a, b) => a - b);
  const half = Math.min(times.length, Math.ceil(report.models.length / 2));
  const end = 1.15 * times[half - 1];
  return end < longest(set, 'seconds') ? end : null;
}

// Round times of a logarithmic axis, as people say them.
function timeTicks(min, max) {
  const times = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000, 86400];
  const fine = [0.001, 0.01, 0.1, ...times, 432000].filter((at) => at >= min && at <= max);
  return fine.map((value) => ({value}));
}

// From the first evaluation of a run after its start.
function logarithmicTime(set, end, unit) {
  const firsts = set.runs.map((run) => run.evaluations.seconds.find((at) => at > 0));
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

// `span`: of time-axis.
function drawCurves(id, set, x, y, {withDots = false, span = 'whole'} = {}) {
  const overTime = x === 'seconds';
  const farthest = span === 'target' ? targetEnd(set) ?? longest(set, x) : longest(set, x);
  const unit = overTime ? timeUnit(farthest) : {name: '', seconds: 1};
  const end = farthest / unit.seconds;
  const xTitle = overTime ? `${timeName} (${unit.name})` : 'Steps of all workers';
  const formatX = (value) =>
      overTime ? formatDuration(value * unit.seconds) : `${formatCount(value)} steps`;
  const formatY = y === 'loss' ? formatLoss : formatFigure;
  const xAxis =
      span === 'logarithmic' ? logarithmicTime(set, end, unit) : endingAt(end, axis(xTitle));
  const yAxis = valueAxis(set, y);
  if (!overTime) xAxis.ticks.callback = (value) => formatCount(value);
  const toggle = (event, item, owner) => {
    const chosen = owner.chart.data.datasets[item.datasetIndex].run;
    if (!chosen) return;
    owner.chart.data.datasets.forEach((dataset, i) => {
      if (dataset.run?.model === chosen.model) owner.chart.setDatasetVisibility(i, item.hidden);
    });
    owner.chart.update();
  };
  // Chart.js cannot place 0 on a logarithmic axis.
  const start = span === 'logarithmic' ? xAxis.min : 0;
  draw(id, `${yAxis.title.text} against ${xTitle.toLowerCase()}, one line a run`, {
    type: 'line',
    data: {
      datasets: [
        ...curveDatasets(set, x, y, unit.seconds),
        ...targetDatasets(set, y, start, end, unit.seconds, withDots)
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
            const name = shorten(set.name(run), 32) + (run.seed ? `, seed ${run.seed}` : '');
            return dot ? `${name}: target reached after ${formatX(raw.x)}` :
                         `${name}: ${formatY(raw.y)} at ${formatX(raw.x)}`;
          },
        }),
      },
    },
  });
}

// Nothing to choose where both choices show the same.
function offerValueAxis(set) {
  byId('value-axis-label').hidden =
      ['loss', 'accuracy'].every((y) => laterRange(set, y) === null);
}

// --- the section of curves.html ------------------------------------------------------------------

const wholeReport = () => ({
  runs: report.runs,
  name: (run) => report.models[run.model].title,
  target: {loss: report.target_loss, accuracy: report.target_accuracy},
});

const hasLoss = () => report.runs.some((run) => run.measured);

function showCurves() {
  byId('curve-section').hidden = !hasLoss();
  if (!hasLoss()) return;
  const set = wholeReport();
  const span = byId('time-axis').value;
  byId('axis-target').hidden = !known(targetEnd(set));  // only where it shortens the axis
  byId('curve-data').textContent = heldOut(set) ?
      'Measured on held-out data' :
      'The loss of the workers\u2019 own mini-batches, because nothing is held out';
  byId('accuracy-caption').textContent = `${report.figure.title} against time`;
  byId('accuracy-time').closest('figure').hidden = !heldOut(set);
  offerValueAxis(set);
  drawCurves('loss-time', set, 'seconds', 'loss', {withDots: true, span});
  drawCurves('loss-steps', set, 'steps', 'loss');
  if (heldOut(set)) {
    const withDots = !known(report.target_loss);
    drawCurves('accuracy-time', set, 'seconds', 'accuracy', {withDots, span});
  }
}

for (const id of ['time-axis', 'value-axis', 'smooth'])
  byId(id)?.addEventListener('change', () => redraw());
