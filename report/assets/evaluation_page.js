// Fills the page of `rubato evaluate` from its data.

byId('name').textContent = report.model;
byId('headline').textContent =
    `${formatPercent(report.accuracy)} of ${formatCount(report.samples)} samples are right; ` +
    `${report.worst_class} is recognised least`;
byId('facts').replaceChildren(
    ...[`balanced accuracy ${formatPercent(report.balanced_accuracy)}`,
        `F1 ${formatPercent(report.f1)}`, `AUC ${formatPercent(report.auc)}`,
        `loss ${formatLoss(report.loss)}`, `data ${report.data}`].map(
        (fact) => element('li', {}, fact)));

fillTable(
    'classes',
    [
      ['Class', (c) => c.name],
      ['Samples', (c) => formatCount(c.samples)],
      ['Precision', (c) => formatPercent(c.precision)],
      ['Recall', (c) => formatPercent(c.recall)],
      ['F1', (c) => formatPercent(c.f1)],
      ['AUC', (c) => formatPercent(c.auc)],
    ],
    report.classes);

const total = (row) => report.confusion[row].reduce((sum, count) => sum + count, 0);
fillTable(
    'confusion',
    [
      ['Class', (row) => report.classes[row].name],
      ...report.classes.map((predicted, column) => [predicted.name, (row) => {
        const count = report.confusion[row][column];
        const cell = element('span', {class: 'share'}, formatCount(count));
        const share = total(row) > 0 ? count / total(row) : 0;
        cell.style.setProperty('--share', `${(100 * share).toFixed(1)}%`);
        return cell;
      }]),
    ],
    report.classes.map((_, row) => row));

byId('run').replaceChildren(...Object.entries(report.run).flatMap(
    ([key, value]) => [element('dt', {}, key), element('dd', {}, value)]));

followTheme(() => {}, () => {});
