// Fills the study's page from the data and redraws it when the theme or a choice changes.

const others = report.axes.map((axis, index) => index)
                   .filter((index) => index !== report.x && report.axes[index].values.length > 1);
const chosen = report.axes.map(() => 0);  // of every axis but x: which value is shown

const summaryAt = (point, contender) => report.summaries.find(
    (s) => s.contender === contender && s.point.every((value, axis) => value === point[axis]));
const shownAt = (x) => chosen.map((value, axis) => axis === report.x ? x : value);
const title = (summary) => report.contenders[summary.contender].title;

// The rows of the charts: every contender along x.
function rowsAlongX() {
  return report.contenders.map(
      (_, contender) => xAxisOf.values.map((_, x) => summaryAt(shownAt(x), contender)));
}

function timeText(summary) {
  const part = summary.reached < summary.runs || summary.runs < report.seeds ?
      [element(
          'span', {class: 'range'},
          `${summary.reached} of ${summary.runs} runs` +
              (summary.runs < report.seeds ? `, ${report.seeds - summary.runs} to do` : ''))] :
      [];
  if (!known(summary.time.median)) return ['not reached', ...part];
  const range = summary.runs > 1 && summary.reached === summary.runs ?
      [element(
          'span', {class: 'range'},
          `${formatDuration(summary.time.min)} – ${formatDuration(summary.time.max)}`)] :
      [];
  return [formatDuration(summary.time.median), ...part, ...range];
}

const searches = () => report.summaries.some((s) => s.trials.length > 0);
const runsOf = (s) =>
    s.trials.length > 0 ? s.trials.reduce((sum, trial) => sum + trial.runs, 0) : s.runs;

const figures = () => [
  ...(searches() ? [['Best of a search', (s) => s.choice || missing, 'text']] : []),
  report.target ? ['Time to target', timeText] : ['Time', (s) => formatDuration(s.length)],
  ...(report.summaries.some((s) => known(s.saving)) ? [['Saving', (s) => formatPercent(s.saving)]] :
                                                      []),
  ...(report.summaries.some((s) => known(s.bound_share)) ?
          [['Of bound', (s) => formatPercent(s.bound_share)]] :
          []),
  ['Computing', (s) => formatPercent(s.compute)],
  ['Waiting', (s) => formatPercent(s.wait)],
  ['Communicating', (s) => formatPercent(s.communicate)],
  ['Steps', (s) => formatCount(s.steps.median)],
  ['Commits', (s) => formatCount(s.commits.median)],
  ['Bytes', (s) => formatBytes(s.bytes.median)],
  ...(report.summaries.some((s) => s.curve.loss.length > 0) ?
          [
            [
              'Final loss',
              (s) => formatLoss(s.loss.median) + (s.diverged ? ` (${s.diverged} diverged)` : '')
            ],
            [report.figure.title, (s) => formatFigure(s.accuracy.median)]
          ] :
          []),
];

// The shortest median, and those whose seeds' range meets the range of that one.
function isBest(summary, rivals) {
  const arrived = rivals.filter(({time}) => known(time.median));
  if (!known(summary.time.median)) return false;
  const best = arrived.reduce((a, b) => b.time.median < a.time.median ? b : a);
  return summary.time.min <= (best.time.max ?? Infinity);
}

// Time to target, or, where there is none, the steps.
function drawPointBars(summaries) {
  setHeight('bars-box', summaries.length, 34);
  const quantity = report.target ? quantities.time : quantities.steps;
  const values =
      summaries.flatMap((s) => [quantity.value(s), quantity.range(s).max]).filter(known);
  const most = Math.max(1, ...values);
  const unit = timeUnit(most);
  const scale = quantity.timed ? unit.seconds : 1;
  const xAxis = axis(quantity.title(unit), {beginAtZero: true, suggestedMax: 1.03 * most});
  xAxis.ticks.callback = (value) =>
      quantity.timed ? formatValue(value / scale) : formatCount(value);
  xAxis.ticks.stepSize = niceStep(most / scale) * scale;
  const dataset = {
    data: summaries.map((s) => known(quantity.value(s)) ? quantity.value(s) : null),
    ranges: summaries.map((s) => rangeOf(s, quantity)),
    rangeColour: colour('ink'),
    backgroundColor: summaries.map((s) => modelColour(s.contender)),
    maxBarThickness: 26,
  };
  drawBars(
      'bars', `${report.target ? 'Time to target' : 'Steps'} of every contender`,
      summaries.map(title), [dataset],
      {xAxis, label: ({raw}) => quantity.format(raw), plugins: [ranges]});
}

function drawPointShares(summaries) {
  setHeight('shares-box', summaries.length, 34);
  const xAxis = axis('Share of time (%)', {min: 0, max: 1});
  xAxis.ticks.callback = (value) => Math.round(100 * value);
  drawParts(
      'shares', 'Computing, communicating and waiting shares of every contender',
      summaries.map(title), summaries, xAxis, formatPercent, [barLabels(formatPercent)]);
}

function drawPointCurves(summaries, target) {
  const run = (s) => ({
    model: s.contender,
    typical: true,
    evaluations: {...s.curve, accuracy: known(s.accuracy.median) ? [s.accuracy.median] : []}
  });
  const set = {
    runs: summaries.map(run),
    name: ({model}) => report.contenders[model].title,
    target: {loss: target}
  };
  offerValueAxis(set);
  drawCurves('curves', set, 'seconds', 'loss');
}

function showPoint() {
  const point = shownAt(Number(byId('x-value').value));
  const summaries =
      report.contenders.map((_, contender) => summaryAt(point, contender)).filter(Boolean);
  fillTable(
      'point', [['Contender', (s) => [swatch(s.contender), title(s)]], ...figures()], summaries,
      (s) => isBest(s, summaries) ? 'best' : '');
  fillTrials(summaries);
  if (summaries.length === 0) return;
  drawPointBars(summaries);
  drawPointShares(summaries);
  const measured = summaries.filter((s) => s.curve.loss.length > 0);
  byId('curves').closest('figure').hidden = byId('curve-controls').hidden = measured.length === 0;
  if (measured.length > 0) drawPointCurves(measured, summaries[0].target_loss);
}

// What the searches of one point have tried.
function fillTrials(summaries) {
  byId('trials').closest('div').hidden = !searches();
  if (!searches()) return;
  const rows = summaries.flatMap(
      (s) => s.trials.map((trial) => ({...trial, summary: s, best: trial.choice === s.choice})));
  fillTable(
      'trials',
      [
        ['Search', ({summary}) => [swatch(summary.contender), title(summary)]],
        ['Tried', (t) => t.choice, 'text'],
        ['Time to target', (t) => known(t.time) ? formatDuration(t.time) : 'not reached'],
        ['Reached', (t) => `${t.reached} of ${t.runs}`],
        ['Final loss', (t) => formatLoss(t.loss)],
      ],
      rows, ({best}) => best ? 'best' : '');
}

function fillGrid() {
  const axes = report.axes.map(
      ({name, values}, axis) => [shorten(name, 28), (s) => values[s.point[axis]].label, 'text']);
  const rivals = (s) => report.summaries.filter(
      (other) => other.point.every((value, axis) => value === s.point[axis]));
  fillTable(
      'grid', [['Contender', (s) => [swatch(s.contender), title(s)]], ...axes, ...figures()],
      report.summaries, (s) => isBest(s, rivals(s)) ? 'best' : '');
}

function fillText() {
  const {host} = report;
  byId('name').textContent = `· ${report.name}`;
  byId('question').textContent = report.question;
  byId('answer').textContent = withHardSpaces(report.answer) || 'No run has ended yet.';
  byId('expected').textContent = report.expected ? `Expected: ${report.expected}` : '';
  const subject = report.target ? 'Time to target' : 'What the workers did';
  byId('time-title').textContent = xAxisOf.name ? `${subject} against ${xAxisOf.name}` : subject;
  byId('time-caption').textContent = report.target ? `Target: ${report.target}` : '';
  byId('x-name').textContent = xAxisOf.name;
  byId('bars-caption').textContent = report.target ? 'Time to target' : 'Steps of all workers';
  byId('time').closest('figure').hidden = !report.target;
  for (const words of document.querySelectorAll('.of-target')) words.hidden = !report.target;
  const finished = report.summaries.reduce((sum, s) => sum + runsOf(s), 0);
  const facts = [
    `${report.workers} workers`, ...(report.target ? [`target: ${report.target}`] : []),
    `${report.seeds} seed${report.seeds === 1 ? '' : 's'}`,
    finished === report.planned ? `${finished} runs` :
                                  `${finished} of ${report.planned} runs finished`,
    'virtual time'
  ];
  byId('facts').replaceChildren(...facts.map((fact) => element('li', {}, fact)));
  byId('command').textContent = report.command;
  byId('study-file').textContent = report.study_text;
  byId('cluster-file').textContent = report.cluster_text;
  const origin = [
    ['Rubato', `${host.rubato}, built from ${host.commit}`],
    ['Processor', `${host.cpu}, ${host.cores} core${host.cores === 1 ? '' : 's'}`],
    ['System', host.os]
  ];
  byId('origin').replaceChildren(
      ...origin.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
  fillTable(
      'contenders',
      [
        ['Contender', (c) => [swatch(report.contenders.indexOf(c)), c.title]],
        ['Sync model', (c) => c.sync, 'text'],
        ['Options', (c) => c.settings || missing, 'text'],
      ],
      report.contenders);
}

function fillChoices() {
  const option = (value, text) => element('option', {value}, text);
  for (const index of others) {
    const {name, values} = report.axes[index];
    const select =
        element('select', {}, ...values.map(({label}, i) => option(i, shorten(label, 40))));
    select.addEventListener('change', () => {
      chosen[index] = Number(select.value);
      showChosen();
    });
    byId('others').append(element('label', {}, `${name} `, select), ' ');
  }
  byId('x-value').append(...xAxisOf.values.map(({label}, i) => option(i, shorten(label, 40))));
  // The last value of which something is known.
  const some = xAxisOf.values.map((_, x) => report.summaries.some((s) => (s.point[report.x] ?? 0) === x));
  byId('x-value').value = Math.max(0, some.lastIndexOf(true));
  byId('x-value').closest('p').hidden = xAxisOf.values.length < 2;
}

function showChosen() {
  const rows = rowsAlongX();
  for (const [id, quantity] of Object.entries(quantities))
    if (!quantity.timed || report.target) drawAlongX(id, quantity, rows);
  showPoint();
}

const redraw = showChosen;

function fillPage() {
  fillText();
  fillGrid();
}

fillChoices();
fillPage();
followTheme(redraw, fitToPaper);
byId('x-value').addEventListener('change', showPoint);
