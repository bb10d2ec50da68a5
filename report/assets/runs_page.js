// Fills the page of several run directories from its data.

const hasTarget = Boolean(report.target);

function fillText() {
  byId('headline').textContent = withHardSpaces(report.headline);
  const times = new Set(report.directories.map(({time}) => time));
  const facts = [
    `${report.directories.length} runs`, ...(hasTarget ? [`target: ${report.target}`] : []),
    `${[...times].join(' and ')} time`
  ];
  byId('facts').replaceChildren(...facts.map((fact) => element('li', {}, fact)));
  for (const node of document.querySelectorAll('.when-target')) node.hidden = !hasTarget;
}

function fillRows() {
  const [run, ...others] = report.header;
  fillTable(
      'rows',
      [
        [run, (row) => [swatch(report.rows.indexOf(row)), row.cells[0]]],
        ...others.map(
            (name, i) =>
                [name, (row) => row.cells[i + 1], name === 'Model' || name === 'Against' ? 'text' : '']),
        ['Steps', (row) => formatCount(row.steps)],
        ['Commits', (row) => formatCount(row.commits)],
        ['Bytes', (row) => formatBytes(row.bytes)],
        ...(hasTarget ? [['Final loss', (row) => known(row.loss) ? formatLoss(row.loss) : missing]] :
                        []),
        [report.figure.title, (row) => formatFigure(row.accuracy)],
      ],
      report.rows);
  fillTable(
      'directories',
      [
        ['Run', (d) => d.name],
        ['Cluster', (d) => d.cluster, 'text'],
        ['Command', (d) => d.command, 'text'],
        ['Rubato', (d) => `${d.host.rubato}, ${d.host.commit}`, 'text'],
        ...(report.directories.some((d) => d.note) ? [['Note', (d) => d.note, 'text']] : []),
      ],
      report.directories);
}

const redraw = showCurves;

fillText();
fillRows();
followTheme(redraw, fitToPaper);
