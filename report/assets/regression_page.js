// Fills the page of `rubato evaluate` for a regression from its data.

const formatNumber = (value) => known(value) ? String(Number(value.toPrecision(6))) : missing;
const formatR2 = (value) => known(value) ? value.toFixed(4) : missing;

byId('name').textContent = report.model;
byId('headline').textContent = `R^2 of ${formatR2(report.r2)} on ${formatCount(report.samples)} ` +
    `samples; ${report.target} is ${formatNumber(Number(report.mae?.toPrecision(3)))} off on average`;
byId('facts').replaceChildren(
    ...[`loss ${formatLoss(report.loss)}`, `data ${report.data}`].map(
        (fact) => element('li', {}, fact)));

fillTable(
    'errors', [['Figure', ([name]) => name], ['Value', ([, value]) => value]], [
      ['R^2', formatR2(report.r2)],
      ['MSE', formatNumber(report.mse)],
      ['RMSE', formatNumber(report.rmse)],
      ['MAE', formatNumber(report.mae)],
    ]);

fillTable(
    'residuals',
    [
      ['Share of samples', (r) => formatPercent(r.share)],
      ['Residual at most', (r) => formatNumber(r.residual)],
    ],
    report.residuals);

fillTable(
    'worst',
    [
      ['Sample', (w) => String(w.sample)],
      ['Real', (w) => formatNumber(w.target)],
      ['Predicted', (w) => formatNumber(w.predicted)],
      ['Residual', (w) => formatNumber(known(w.predicted) ? w.predicted - w.target : null)],
    ],
    report.worst);

// Real numbers along x, predicted ones along y: what is right lies on the line.
function drawScatter() {
  const point = ([x, y]) => ({x, y});
  const worst = report.worst.map((w) => [w.target, w.predicted]);
  const values = [...report.points, ...worst].flat().filter(known);
  const [low, high] = [least(values), most(values)];
  const key = legend();
  key.labels.pointStyleWidth = 10;
  const margin = 0.03 * (high - low) || 1;
  const range = {min: low - margin, max: high + margin};
  const dots = (label, data, own, radius) =>
      ({label, data, backgroundColor: own, borderColor: own, pointRadius: radius, order: 2});
  const ends = [low - margin, high + margin].map((value) => ({x: value, y: value}));
  const numbers = (title) => {
    const plain = axis(title, {type: 'linear', ...range});
    plain.ticks.includeBounds = false;
    plain.ticks.callback = formatNumber;
    return plain;
  };
  draw('scatter', `Predicted ${report.target} against the real one, one dot a sample`, {
    type: 'scatter',
    data: {
      datasets: [
        {
          label: 'predicted = real',
          type: 'line',
          data: ends,
          borderColor: colour('ink'),
          borderWidth: 1.5,
          borderDash: [4, 4],
          pointRadius: 0,
          pointHitRadius: 0,
          pointStyle: 'line',
          order: 0,
        },
        dots('sample', report.points.map(point), `${colour('accent')}73`, 2.5),
        {
          ...dots('worst samples', worst.map(point), colour('series-0'), 4),
          pointStyle: 'triangle',
          order: 1
        },
      ]
    },
    options: {
      interaction: {mode: 'nearest', axis: 'xy', intersect: true},
      scales: {x: numbers(`Real ${report.target}`), y: numbers(`Predicted ${report.target}`)},
      plugins: {
        legend: key,
        tooltip: tooltip({
          title: () => '',
          label: ({raw}) => `real ${formatNumber(raw.x)}, predicted ${formatNumber(raw.y)}`,
        }),
      },
    },
  });
}

byId('run').replaceChildren(...Object.entries(report.run).flatMap(
    ([key, value]) => [element('dt', {}, key), element('dd', {}, value)]));

byId('shown').textContent = report.points.length < report.samples ?
    `${formatCount(report.points.length)} of ${formatCount(report.samples)} samples, evenly chosen, and the worst ones.` :
    'All samples.';
followTheme(drawScatter, fitToPaper);
