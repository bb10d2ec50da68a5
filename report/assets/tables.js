// Tables, and the mark of a model in them.

function svgElement(tag, attributes) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// Gives an element the model's colour as --own, in light and in dark.
function inOwnColour(node, model) {
  node.classList.add('own');
  node.style.setProperty('--light', styleOf(model).light);
  node.style.setProperty('--dark', styleOf(model).dark);
  return node;
}

function swatch(model) {
  const svg = svgElement('svg', {class: 'swatch', 'aria-hidden': true, viewBox: '0 -6 28 12'});
  const dash = styleOf(model).dash || 'none';
  const fill = styleOf(model).hollow ? 'var(--card)' : 'var(--own)';
  svg.append(
      svgElement('path', {
        d: 'M0 0h28',
        style: 'stroke: var(--own)',
        'stroke-width': 2.5,
        'stroke-dasharray': dash
      }),
      svgElement('path', {
        d: styleOf(model).mark,
        style: `stroke: var(--own); fill: ${fill}`,
        'stroke-width': 1.6,
        transform: 'translate(14 0)'
      }));
  return inOwnColour(svg, model);
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
