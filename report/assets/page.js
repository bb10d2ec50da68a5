// Fills the page from the data and redraws it when the theme, a choice or the paper changes.

const hasTarget = Boolean(report.target);

// Only on a live page.
const goesOn = (model) => report.runs.some(
    (run) => report.models[run.model] === model && run.stop_reason === 'still running');

function timeCell(model, slowest) {
  const note = (text) => element('span', {class: 'range'}, text);
  const some = note(`${model.reached} of ${model.runs} runs`);
  if (!known(model.time_to_target)) return [goesOn(model) ? 'not yet' : 'not reached', some];
  const bar = inOwnColour(element('span', {class: 'bar'}), report.models.indexOf(model));
  bar.style.width = `${Math.max(1, 100 * model.time_to_target / slowest).toFixed(1)}%`;
  bar.style.background = 'var(--own)';
  const cell = [formatDuration(model.time_to_target), bar];
  if (model.reached < model.runs) return [...cell, some];
  if (model.runs === 1) return cell;
  return [...cell, note(model.time_range.map(formatDuration).join(' – '))];
}

// Of a model or a run; none where nobody measured any.
const lossCell = (row) =>
    row.diverged ? 'diverged' : row.measured ? formatLoss(row.final_loss) : missing;
const lossColumns = () => hasLoss() ?
    [
      ['Final loss', lossCell],
      [report.figure.title, (row) => formatFigure(row.final_accuracy)],
    ] :
    [];

function fillSummary() {
  const times = report.models.map((model) => model.time_to_target).filter(known);
  const slowest = Math.max(...times);
  const timeColumns = hasTarget ?
      [
        ['Time to target', (model) => timeCell(model, slowest)],
        ['Saving', (model) => formatPercent(model.saving)],
        ...(known(report.linear_bound) ?
                [['Of bound', (model) => formatPercent(model.bound_share)]] :
                [])
      ] :
      [['Time', (model) => formatDuration(model.seconds)]];
  fillTable(
      'summary',
      [
        ['Model', (model) => [swatch(report.models.indexOf(model)), model.title]],
        ...timeColumns,
        ['Computing', (model) => formatPercent(model.shares.compute)],
        ['Waiting', (model) => formatPercent(model.shares.wait)],
        ['Communicating', (model) => formatPercent(model.shares.communicate)],
        ['Steps', (model) => formatCount(model.steps)],
        ['Commits', (model) => formatCount(model.commits)],
        ['Up', (model) => formatBytes(model.bytes_up)],
        ['Down', (model) => formatBytes(model.bytes_down)],
        ...lossColumns(),
      ],
      report.models, (model) => model.first ? 'best' : '');
}

const modelTitle = (run) => report.models[run.model].title;

// Of runs or workers whose sync model did not use all commits.
const droppedColumns = [
  ['Dropped', (row) => formatCount(row.dropped_commits)],
  ['Samples of these', (row) => formatCount(row.dropped_samples)],
];

function fillRuns() {
  const time = (run) =>
      known(run.time_to_target) ? formatDuration(run.time_to_target) : 'not reached';
  const targetColumn = hasTarget ? [['Time to target', time]] : [];
  fillTable(
      'runs',
      [
        ['Model', (run) => modelTitle(run)],
        ['Seed', (run) => run.seed],
        ...targetColumn,
        ['Length', (run) => formatDuration(run.seconds)],
        ['Steps', (run) => formatCount(run.steps)],
        ['Commits', (run) => formatCount(run.commits)],
        ['Refused', (run) => run.refused || formatCount(run.refused_commits)],
        ...(report.runs.some((run) => run.dropped_commits > 0) ? droppedColumns : []),
        ...lossColumns(),
        ['Ended by', (run) => run.stop_reason || missing, 'text'],
      ],
      report.runs);
}

// Of workers that measure the model on samples of their own.
const heldOutColumns = [
  ['Held out', (worker) => worker.held_out ? formatCount(worker.held_out.samples) : missing],
  ['Loss', (worker) => worker.held_out ? formatLoss(worker.held_out.loss) : missing],
  [
    report.figure.title,
    (worker) => worker.held_out ? formatFigure(worker.held_out.accuracy) : missing
  ],
];

// Of runs where workers came and went. A worker that came back has a row for each of its lives.
const churnColumns = [
  ['Joined', (worker) => worker.joined > 0 ? formatDuration(worker.joined) : 'start'],
  ['Gone', (worker) => known(worker.left) ? formatDuration(worker.left) : missing],
];

// Of runs in which commits were refused, and their workers are known.
const refusedColumns = [['Refused', (worker) => worker.refused || missing]];

// Of runs with devices whose power is known.
const energyColumns = [['Energy', (worker) => formatEnergy(worker.joules)]];

function fillWorkers(run) {
  const churn = run.workers.some((worker) => worker.joined > 0 || known(worker.left));
  fillTable(
      'workers',
      [
        ['Worker', (worker) => worker.id],
        ['Step', (worker) => formatDuration(worker.step_seconds)],
        ['Steps', (worker) => formatCount(worker.steps)],
        ['Commits', (worker) => formatCount(worker.commits)],
        ['Computing', (worker) => formatDuration(worker.compute)],
        ['Waiting', (worker) => formatDuration(worker.wait)],
        ['Communicating', (worker) => formatDuration(worker.communicate)],
        ...(run.workers.some((worker) => worker.held_out) ? heldOutColumns : []),
        ...(churn ? churnColumns : []),
        ...(run.workers.some((worker) => worker.refused) ? refusedColumns : []),
        ...(run.dropped_commits > 0 ? droppedColumns : []),
        ...(run.workers.some((worker) => known(worker.joules)) ? energyColumns : []),
        ['At the end', (worker) => worker.fate],
      ],
      run.workers);
}

function fillText() {
  const {cluster, seeds} = report;
  byId('cluster').textContent = `· ${cluster}`;
  byId('headline').textContent = withHardSpaces(report.headline);
  // A worker that came back has a row for each of its lives.
  const count = new Set(report.runs[0].workers.map((worker) => worker.id)).size;
  const {heterogeneity} = report.models[0];
  const facts = [
    `${count} worker${count === 1 ? '' : 's'}`,
    ...(heterogeneity > 0 ? [`heterogeneity H = ${heterogeneity.toFixed(2)}`] : []),
    ...(hasTarget ? [`target: ${report.target}`] : []),
    `seed${seeds.length === 1 ? '' : 's'} ${seeds.join(', ')}`,
    report.virtual_time ? 'virtual time' : 'real time',
  ];
  byId('facts').replaceChildren(...facts.map((fact) => element('li', {}, fact)));
  byId('note').textContent = report.note;
  byId('note').hidden = !report.note;
  byId('partial').textContent = report.partial;
  byId('partial').hidden = !report.partial;
  byId('findings').replaceChildren(
      ...report.findings.map((line) => element('li', {}, `Warning: ${line}.`)));
  byId('findings').hidden = report.findings.length === 0;
  byId('command').textContent = report.command;
  byId('config').textContent = report.config;
  const {host} = report;
  const origin = [
    ['Rubato', `${host.rubato}, built from ${host.commit}`],
    ['Processor', `${host.cpu}, ${host.cores} core${host.cores === 1 ? '' : 's'}`],
    ['System', host.os], ['Seeds', seeds.join(', ')]
  ];
  byId('origin').replaceChildren(
      ...origin.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
  for (const node of document.querySelectorAll('.when-target')) node.hidden = !hasTarget;
  byId('linear-bound').hidden = !known(report.linear_bound);
  byId('linear-bound-time').textContent = formatDuration(report.linear_bound);
}

const tunedRuns = () => report.runs.filter((run) => run.decisions.length > 0);

// Offers these texts, by their index. What the reader chose stays chosen.
function offer(id, texts, first) {
  const select = byId(id);
  const kept = select.value;
  select.replaceChildren(...texts.map((text, value) => element('option', {value}, text)));
  select.value = kept !== '' && Number(kept) < texts.length ? kept : Math.max(0, first);
}

function fillChoices() {
  const tuned = tunedRuns();
  offer(
      'worker-model', report.models.map((model) => shorten(model.title, 40)),
      report.models.findIndex((model, i) => tuned.some((run) => run.model === i)));
  byId('decision-section').hidden = tuned.length === 0;
  offer(
      'decision-run',
      tuned.map(
          (run) => `${shorten(modelTitle(run), 40)}, seed ${run.seed}${
              run.typical ? ' (median run)' : ''}`),
      tuned.findIndex((run) => run.typical));
}

function showWorkers() {
  const model = Number(byId('worker-model').value);
  const run = report.runs.find((candidate) => candidate.model === model && candidate.typical);
  byId('worker-run').textContent =
      `seed ${run.seed}${report.models[model].runs > 1 ? ', the median run' : ''}`;
  drawWorkerTime(run);
  drawWorkerCommits(run);
  drawCommitsOverTime(run);
  fillWorkers(run);
}

function showDecisions() {
  if (tunedRuns().length === 0) return;
  const run = tunedRuns()[Number(byId('decision-run').value)];
  byId('decision-quantity').textContent = run.decisions[0].quantity;
  drawDecisions(run);
  fillTable(
      'decisions',
      [
        ['Time', (decision) => formatDuration(decision.seconds)],
        ['What', (decision) => decision.quantity, 'text'],
        ['Value', (decision) => formatValue(decision.value)],
        ['Reason', (decision) => decision.reason, 'text'],
      ],
      run.decisions);
}

function redraw() {
  showCurves();
  drawShares();
  drawPaths();
  showWorkers();
  showDecisions();
}

function fillPage() {
  fillText();
  fillSummary();
  fillRuns();
  fillChoices();
}

fillPage();
followTheme(redraw, fitToPaper);
byId('worker-model').addEventListener('change', showWorkers);
byId('decision-run').addEventListener('change', showDecisions);
