'use strict';
// Numbers as people read them, and the page's small helpers. Dashes stand for what is missing.

const report = JSON.parse(document.getElementById('data').textContent);

const missing = '–';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

function formatCount(value) {
  return known(value) ? Math.round(value).toLocaleString('en') : missing;
}

function formatPercent(share) {
  return known(share) ? (100 * share).toFixed(1).replace('-0.0', '0.0') + ' %' : missing;
}

// The figure beside the loss: accuracy, or R^2 in a regression.
function formatFigure(value) {
  if (report.figure.percent) return formatPercent(value);
  return known(value) ? value.toFixed(4) : missing;
}

function formatLoss(value) {
  if (!known(value) || Math.abs(value) >= 1e6) return 'diverged';
  return Math.abs(value) < 10 ? value.toFixed(4) : String(Number(value.toPrecision(5)));
}

function formatBytes(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.length; ++unit) bytes /= 1000;
  const decimals = unit === 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return `${bytes.toFixed(decimals)} ${units[unit]}`;
}

function formatEnergy(joules) {
  if (!known(joules)) return missing;
  return joules < 10000 ? `${joules.toPrecision(3)} J` : `${(joules / 3.6e6).toPrecision(3)} kWh`;
}

function formatDuration(seconds) {
  if (!known(seconds)) return missing;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 99.95) return `${seconds.toFixed(1)} s`;
  const two = (n) => String(n).padStart(2, '0');
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.round(whole / 60);
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
}

// Of a round time: "30 s", "5 min", "2 h".
const shortDuration = (seconds) => formatDuration(seconds)
                                       .replace(/\.0+ s$/, ' s')
                                       .replace(/ 00 (s|min)$/, '');

// The unit of a time axis that ends at `seconds`.
function timeUnit(seconds) {
  if (seconds <= 180) return {name: 's', seconds: 1};
  return seconds <= 3 * 3600 ? {name: 'min', seconds: 60} : {name: 'h', seconds: 3600};
}

const formatValue = (value) => String(Number(value.toFixed(2)));

// A round distance between ticks that gives about six of them.
function niceStep(range) {
  const power = 10 ** Math.floor(Math.log10(range / 6 || 1));
  return power * ([1, 2, 5].find((factor) => factor * power * 6 >= range) ?? 10);
}

function shorten(text, length) {
  return text.length <= length ? text : text.slice(0, length - 1) + '…';
}

function wrap(text, length) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length >= length)
      lines.push(word);
    else
      lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}

// A number stays with its unit, and a duration whole.
const withHardSpaces = (text) =>
    text.replace(/(\d) (?=%|s\b|min\b|h\b)/g, '$1\u00a0').replace(/(min|h) (?=\d)/g, '$1\u00a0');

const byId = (id) => document.getElementById(id);

// Makes an element; strings among `children` become text, never markup.
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const timeName = report.virtual_time ? 'Virtual time' : 'Time';
