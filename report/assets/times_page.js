// Fills the page of times to a target, one bar a row.

const fills = {change: 'accent', reference: 'series-5', bound: 'series-4'};

function fillText() {
  byId('cluster').textContent = `· ${report.title} · ${report.cluster}`;
  byId('headline').textContent = withHardSpaces(report.headline);
  byId('facts').replaceChildren(...report.facts.map((fact) => element('li', {}, fact)));
  byId('notes').replaceChildren(
      ...report.notes.map((note) => element('p', {class: 'note'}, note)));
  byId('command').textContent = report.command;
  const [first, ...others] = report.header;
  fillTable(
      'rows',
      [
        [first, (row) => row.name],
        ...others.map((name, i) => [name, (row) => row.cells[i], name === 'Why' ? 'text why' : '']),
      ],
      report.rows, (row) => row.kind === 'change' ? '' : 'best');
}

function drawTimes() {
  byId('times-section').hidden = !report.targeted;
  if (!report.targeted) return;
  setHeight('times-box', report.rows.length, 34);
  const ends = report.rows.flatMap((row) => [row.time, ...(row.interval ?? [])]).filter(known);
  const longest = Math.max(1, ...ends);
  const unit = timeUnit(longest);
  const xAxis = axis(`${timeName} (${unit.name})`, {beginAtZero: true, suggestedMax: 1.03 * longest});
  xAxis.ticks.callback = (value) => formatValue(value / unit.seconds);
  xAxis.ticks.stepSize = niceStep(longest / unit.seconds) * unit.seconds;
  const range = (row) => ({
    median: row.time,
    min: row.interval?.[0],
    max: row.interval ? row.interval[1] : row.time,
    reached: row.reached,
    runs: row.runs,
  });
  const dataset = {
    data: report.rows.map((row) => known(row.time) ? row.time : null),
    ranges: report.rows.map(range),
    rangeColour: colour('ink'),
    backgroundColor: report.rows.map((row) => colour(fills[row.kind])),
    maxBarThickness: 26,
  };
  drawBars(
      'times', 'Time to the target of every row', report.rows.map((row) => row.name), [dataset],
      {xAxis, label: ({raw}) => formatDuration(raw), plugins: [ranges]});
}

fillText();
followTheme(drawTimes, fitToPaper);
