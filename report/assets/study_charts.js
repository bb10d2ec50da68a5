// The charts of a study: one value of every contender along the x axis, with the range of its
// seeds.

const xAxisOf = report.axes[report.x] ?? {name: '', values: [{label: '', number: null}]};
const numeric = xAxisOf.values.length > 2 && xAxisOf.values.every(({number}) => known(number));

// Marks of a logarithmic axis: 1, 2 and 5 times the powers of ten, or the powers where those are
// many.
function roundTicks(min, max) {
  const first = Math.floor(Math.log10(min)), last = Math.ceil(Math.log10(max));
  const powers = Array.from({length: last - first + 1}, (_, i) => 10 ** (first + i));
  const fine = powers.flatMap((power) => [power, 2 * power, 5 * power]);
  const within = (values) => values.filter((value) => value >= min && value <= max);
  const ticks = within(fine).length <= 9 ? within(fine) : within(powers);
  return ticks.map((value) => ({value}));
}

// What a chart shows of a summary: its value, and the range where there is one. `wide`: logarithmic
// where the values differ much, as a time always is.
const quantities = {
  time: {
    title: (unit) => `Time to target (${unit.name})`,
    value: (s) => s.time.median,
    range: (s) => s.time,
    format: formatDuration,
    timed: true
  },
  wait: {title: () => 'Waiting (%)', value: (s) => s.wait, format: formatPercent, share: true},
  communicate: {
    title: () => 'Communicating (%)',
    value: (s) => s.communicate,
    format: formatPercent,
    share: true
  },
  rate: {
    title: () => 'Bytes a second',
    value: (s) => s.rate.median,
    range: (s) => s.rate,
    format: (value) => `${formatBytes(value)}/s`,
    logarithmic: true
  },
  steps: {
    title: () => 'Steps',
    value: (s) => s.steps.median,
    range: (s) => s.steps,
    format: formatCount,
    wide: true
  },
  commits: {
    title: () => 'Commits',
    value: (s) => s.commits.median,
    range: (s) => s.commits,
    format: formatCount,
    wide: true
  },
  bytes: {
    title: () => 'Bytes',
    value: (s) => s.bytes.median,
    range: (s) => s.bytes,
    format: formatBytes,
    wide: true
  },
};

function rangeOf(summary, quantity) {
  const range = quantity.range?.(summary);
  if (!range) return null;
  if (!quantity.timed) return {...range, reached: 1, runs: 1};
  return {...range, reached: summary.reached, runs: summary.runs};
}

// `rows[contender][x]`: the summaries along the x axis, undefined where nothing has finished.
function drawAlongX(id, quantity, rows) {
  const values = rows.flat().filter(Boolean).map(quantity.value).filter(known);
  const largest = Math.max(0, ...values);
  const smallest = Math.min(...values);
  const spans = rows.flat().filter(Boolean).map((s) => quantity.range?.(s)).filter(Boolean);
  const highest = Math.max(largest, ...spans.map(({max}) => max).filter(known));
  const lowest = Math.min(smallest, ...spans.map(({min}) => min).filter(known));
  const unit = timeUnit(largest);
  const logarithmic = quantity.logarithmic ||
      ((quantity.timed || quantity.wide) && smallest > 0 && largest > 30 * smallest);
  const datasets =
      rows.map((row, contender) => ({
                 label: shorten(report.contenders[contender].title, 28),
                 data: row.map((summary, i) => {
                   const y =
                       summary && known(quantity.value(summary)) ? quantity.value(summary) : null;
                   return numeric ? {x: xAxisOf.values[i].number, y} : y;
                 }),
                 ranges: row.map((summary) => summary ? rangeOf(summary, quantity) : null),
                 rangeColour: numeric ? modelColour(contender) : colour('ink'),
                 borderColor: modelColour(contender),
                 backgroundColor: modelColour(contender),
                 borderDash: numeric ? modelDash(contender) : [],
                 borderWidth: numeric ? 2 : 0,
                 pointRadius: 0,
                 pointHitRadius: 6,
                 model: contender,
                 marks: numeric ? row.map((_, i) => i) : null,
                 bar: !numeric,
                 maxBarThickness: 30,
               }));
  const yAxis = axis(quantity.title(unit) + (logarithmic ? ' (logarithmic)' : ''), {beginAtZero: true, suggestedMax: 1.03 * highest});
  if (quantity.timed) {
    yAxis.ticks.callback = (value) => formatValue(value / unit.seconds);
    if (!logarithmic) yAxis.ticks.stepSize = niceStep(largest / unit.seconds) * unit.seconds;
  } else if (quantity.share) {
    yAxis.ticks.callback = (value) => Math.round(100 * value);
  } else {
    yAxis.ticks.callback = (value) => quantity.format(value);
  }
  if (logarithmic) {
    yAxis.type = 'logarithmic';
    yAxis.suggestedMin = 0.95 * lowest;
    yAxis.afterBuildTicks = (scale) => {
      scale.ticks = roundTicks(scale.min, scale.max);
    };
  }
  const xs = xAxisOf.values.map(({number}) => number);
  const xAxis = axis(xAxisOf.name, {grid: {display: false, borderColor: colour('line')}});
  if (numeric) {
    const wide = Math.min(...xs) > 0 && Math.max(...xs) > 20 * Math.min(...xs);
    xAxis.type = wide ? 'logarithmic' : 'linear';
    if (wide) xAxis.title.text += ' (logarithmic)';
    const margin = wide ? 0 : 0.03 * (Math.max(...xs) - Math.min(...xs));
    xAxis.min = wide ? 0.9 * Math.min(...xs) : Math.min(...xs) - margin;
    xAxis.max = wide ? 1.1 * Math.max(...xs) : Math.max(...xs) + margin;
    xAxis.afterBuildTicks = (scale) => {
      scale.ticks = xs.map((value) => ({value}));
    };
    xAxis.ticks.callback = (value) => String(Number(value.toPrecision(4)));
  }
  draw(id, `${quantity.title(unit)} of every contender along ${xAxisOf.name}`, {
    type: numeric ? 'line' : 'bar',
    data: {
      labels: numeric ? undefined : xAxisOf.values.map(({label}) => shorten(label, 22)),
      datasets
    },
    plugins: [ranges, lineMarks],
    options: {
      layout: {padding: {top: 14, right: 8}},
      interaction: {mode: numeric ? 'nearest' : 'index', intersect: false},
      scales: {x: xAxis, y: yAxis},
      plugins: {
        legend: legend(),
        tooltip: tooltip({
          title: ([item]) => `${xAxisOf.name} ${xAxisOf.values[item.dataIndex].label}`,
          label: ({dataset, datasetIndex, dataIndex}) => {
            const value = numeric ? dataset.data[dataIndex].y : dataset.data[dataIndex];
            const choice = rows[datasetIndex][dataIndex]?.choice;
            return `${dataset.label}: ${known(value) ? quantity.format(value) : 'not reached'}` +
                (choice ? ` (${choice})` : '');
          },
        }),
      },
    },
  });
}
