// Tables, and the mark of a model in them.

function swatch(model) {
  const namespace = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(namespace, 'svg');
  const line = document.createElementNS(namespace, 'line');
  svg.setAttribute('class', 'swatch');
  svg.setAttribute('aria-hidden', 'true');
  const dash = modelDash(model).join(' ');
  const attributes = {x1: 0, y1: 4, x2: 28, y2: 4, 'stroke-width': 3, 'stroke-dasharray': dash};
  for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
  line.style.stroke = `var(--series-${model % 8})`;
  svg.append(line);
  return svg;
}

// `columns`: [header, cell(row), class]; the first is the row's header. A cell is text or a node.
function fillTable(id, columns, rows, rowClass = () => '') {
  const content = (cell, row) => [cell(row)].flat();
  const tableRow = (row) => {
    const cells = columns.map(([, cell, kind = ''], i) => {
      if (i === 0) return element('th', {scope: 'row'}, ...content(cell, row));
      return element('td', {class: kind}, ...content(cell, row));
    });
    return element('tr', {class: rowClass(row)}, ...cells);
  };
  const head =
      columns.map(([name, , kind = '']) => element('th', {scope: 'col', class: kind}, name));
  const top = element('thead', {}, element('tr', {}, ...head));
  byId(id).replaceChildren(top, element('tbody', {}, ...rows.map(tableRow)));
}
