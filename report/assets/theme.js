// Light, dark and paper: a page follows the reader's choice, and prints in light colours.

const darkScheme = matchMedia('(prefers-color-scheme: dark)');

// `draw` draws what has colours of its own anew. `fit` then fits it to the paper.
function followTheme(draw, fit) {
  const show = (dark) => {
    document.documentElement.classList.toggle('dark', dark);
    draw();
  };
  darkScheme.addEventListener('change', () => show(darkScheme.matches));
  addEventListener('beforeprint', () => {
    show(false);
    fit();
  });
  addEventListener('afterprint', () => show(darkScheme.matches));
  show(darkScheme.matches);
}

// Marks a table that is wider than its place; the style sheet says there that it scrolls.
const overflows = new ResizeObserver((entries) => {
  for (const box of new Set(entries.map(({target}) => target.closest('.scroll'))))
    box.classList.toggle('overflows', box.scrollWidth > box.clientWidth + 1);
});
for (const box of document.querySelectorAll('.scroll')) {
  overflows.observe(box);
  for (const table of box.children) overflows.observe(table);
}
