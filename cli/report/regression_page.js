// Fills the page of `rubato evaluate` for a regression from its data.

const formatNumber = (value) => known(value) ? String(Number(value.toPrecision(6))) : missing;
const formatR2 = (value) => known(value) ? value.toFixed(4) : missing;

byId('name').textContent = report.model;
byId('headline').textContent = `R^2 of ${formatR2(report.r2)} on ${formatCount(report.samples)} ` +
    `samples; ${report.target} is ${formatNumber(report.mae)} off on average`;
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

byId('run').replaceChildren(...Object.entries(report.run).flatMap(
    ([key, value]) => [element('dt', {}, key), element('dd', {}, value)]));
