// Map of the atlas: two dimensions are the axes, sliders select a bin of each other one or all of them.

import { make, row, table } from './dom.js';
import { Refused, atlas } from './server.js';

const $ = (id) => document.getElementById(id);

/** Letter and style of a cure, in the order of the schemes after the first. */
const LETTERS = { 'E2E-BBR': ['B', 'bbr'], SNOOP: ['N', 'snoop'], 'SPLIT-BBR': ['S', 'split'], 'LINK-HYBRID': ['L', 'link'] };
/** Gain, in times, from which cells have the full colour. */
const FULL = 8;

/** State of the page: axes, and bins of dimensions. @type {Map<string, string>} */
let state = new Map(new URLSearchParams(location.hash.slice(1)));
/** Request in progress. @type {AbortController|null} */
let asking = null;

const number = (value) => value.toLocaleString('en');
const times = (gain) => (gain >= 100 ? Math.round(gain) : gain >= 10 ? gain.toFixed(1) : gain.toFixed(2));

/** Describes a cell in a sentence. @param {object} map @param {object} cell */
function sentence(map, cell) {
  const [x, y] = [map.x, map.y].map((id) => map.dimensions.find((one) => one.id === id));
  const where = `${x.label} ${x.bins[cell.at[0]]}, ${y.label.toLowerCase()} ${y.bins[cell.at[1]]}: `;
  const of = `${number(cell.links)} link${cell.links === 1 ? '' : 's'}`;
  const won = (name) => cell.schemes.find(({ scheme }) => scheme === name).won;
  if (cell.verdict === 'wins') {
    const { mean, interval } = cell.gain;
    return `${where}${cell.cure} wins, ${times(mean)} times the throughput (${interval.map(times).join(' to ')}); best on ${number(won(cell.cure))} of ${of}.`;
  }
  const none = `no cure gained ${map.least_gain} % on ${number(cell.schemes[0].won)} of ${of}.`;
  if (cell.verdict === 'nothing') return `${where}nothing helps; ${none}`;
  if (cell.links < map.least_links) return `${where}unknown; only ${of}, ${map.least_links} are needed.`;
  if (!cell.candidates.length) return `${where}unknown whether a cure helps; ${none}`;
  return `${where}a cure helps, unknown which: ${cell.candidates.map((name) => `${name} (best on ${number(won(name))})`).join(', ')} of ${of}.`;
}

/** Shows a cell of the map. @param {object} map @param {object} cell */
function shown(map, cell) {
  const link = make('a', { href: `${$('simulator').getAttribute('href')}#${cell.simulate}` });
  const said = sentence(map, cell);
  const face = make('span', { className: 'face' });
  // A screen reader reads what is shown, and the sentence.
  link.append(face, make('span', { className: 'hidden', textContent: ` ${said} Simulate this link.` }));
  const of = make('small', { textContent: `${number(cell.links)} links` });
  const td = make('td', { className: `verdict ${cell.verdict}` }, link);
  if (cell.verdict === 'wins') {
    const [letter, style] = LETTERS[cell.cure] ?? [cell.cure, ''];
    td.className = `verdict ${style}`;
    td.style.setProperty('--share', `${Math.round(14 + 40 * Math.min(1, Math.log(cell.gain.mean) / Math.log(FULL)))}%`);
    face.append(make('b', { textContent: letter }), ` ×${times(cell.gain.mean)}`, of);
  } else if (cell.verdict === 'nothing') {
    face.append(make('b', { textContent: '–' }), of);
  } else {
    const may = cell.candidates.map((name) => LETTERS[name]?.[0] ?? name).join('/');
    face.append(make('b', { textContent: '?' }), may ? ` ${may}` : '', of);
  }
  const here = [map.x, map.y].every((id, at) => state.get(id) === String(cell.at[at]));
  td.classList.toggle('here', here);
  for (const event of ['focus', 'pointerenter']) link.addEventListener(event, () => { $('said').textContent = said; });
  return td;
}

/** Shows the map as a table, and as a list. @param {object} map */
function showMap(map) {
  const [x, y] = [map.x, map.y].map((id) => map.dimensions.find((one) => one.id === id));
  const heads = x.bins.map((textContent) => make('th', { scope: 'col', textContent }));
  const corner = make('td', { className: 'axis' });
  $('cells').tHead.replaceChildren(
    make('tr', {}, corner, make('th', { className: 'axis', colSpan: x.bins.length, textContent: `${x.label} →` })),
    make('tr', {}, make('th', { className: 'axis', textContent: `${y.label} ↓` }), ...heads),
  );
  $('cells').tBodies[0].replaceChildren(...map.rows.map((cells, at) => make(
    'tr', {}, make('th', { scope: 'row', textContent: y.bins[at] }), ...cells.map((cell) => shown(map, cell)),
  )));
  const gain = (it) => (it ? `${times(it.mean)} (${it.interval.map(times).join(' to ')})` : '–');
  const words = { wins: (cell) => cell.cure, nothing: () => 'nothing helps', unknown: (cell) => `unknown${cell.candidates.length ? `: ${cell.candidates.join(', ')}` : ''}` };
  table($('list'), [x.label, y.label, 'links', 'verdict', 'gain, times', ...map.schemes.map(({ name }, at) => (at ? `${name} best` : 'nothing helped'))], map.rows.flat().map((cell) => row([
    x.bins[cell.at[0]], y.bins[cell.at[1]], number(cell.links), words[cell.verdict](cell), gain(cell.gain), ...cell.schemes.map(({ won }) => number(won)),
  ])));
  $('status').textContent = `${number(map.included)} of ${number(map.links)} links are included.`;
  $('origin').textContent = `Atlas of ${number(map.links)} links of seed ${map.seed}, one run of each cure, simulated by lasthop ${map.build}.`;
}

/** Shows the legend. @param {object} map */
function showLegend(map) {
  const entry = (style, letter, text) => make('li', {}, make('span', { className: `verdict ${style}`, textContent: letter }), text);
  $('legend').replaceChildren(
    ...map.schemes.slice(1).map(({ name, needs, does }) => {
      const [letter, style] = LETTERS[name] ?? [name, ''];
      const one = entry(style, letter, `${name}: ${needs}`);
      one.title = does;
      return one;
    }),
    entry('nothing', '–', `nothing helps: no cure gains ${map.least_gain} %`),
    entry('unknown', '?', 'unknown: too few links, or too close'),
  );
}

/** Shows the selection of axes and bins. @param {object} map */
function showChoice(map) {
  for (const axis of ['x', 'y']) {
    const other = map[axis === 'x' ? 'y' : 'x'];
    $(axis).replaceChildren(...map.dimensions.filter(({ id }) => id !== other).map(({ id, label, unit }) => new Option(`${label}, ${unit}`, id)));
    $(axis).value = map[axis];
  }
  const others = map.dimensions.filter(({ id }) => id !== map.x && id !== map.y);
  const ids = others.map(({ id }) => `bin-${id}`).join();
  if (ids === [...$('others').querySelectorAll('input')].map(({ id }) => id).join()) {
    others.forEach(setSlider);
    return;
  }
  $('others').replaceChildren(...others.map(({ id, label, hint, bins }) => {
    const range = make('input', { type: 'range', id: `bin-${id}`, min: '0', max: String(bins.length), step: '1' });
    range.setAttribute('aria-describedby', `words-${id}`);
    range.addEventListener('input', () => set(id, range.value === '0' ? '' : String(Number(range.value) - 1)));
    const output = make('output', { id: `words-${id}` });
    output.htmlFor = range.id;
    return make('div', { className: 'field', title: hint }, make('label', { htmlFor: range.id, textContent: label }), range, output);
  }));
  others.forEach(setSlider);
}

/** Shows the bin that is selected. @param {object} dimension */
function setSlider({ id, bins, bin }) {
  const words = bin === null ? 'all' : bins[bin];
  $(`bin-${id}`).value = String(bin === null ? 0 : bin + 1);
  $(`bin-${id}`).setAttribute('aria-valuetext', words);
  $(`words-${id}`).textContent = words;
}

/** Changes the state. @param {string} key @param {string} value */
function set(key, value) {
  if (value) state.set(key, value); else state.delete(key);
  const words = new URLSearchParams([...state]).toString();
  history.replaceState(null, '', words ? `#${words}` : location.pathname);
  show();
}

/** Requests the map of the state, and shows it. */
async function show() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  document.body.classList.add('busy');
  try {
    const map = await atlas(new URLSearchParams([...state]), signal);
    if (signal.aborted) return;
    $('notice').textContent = '';
    showChoice(map);
    showLegend(map);
    showMap(map);
  } catch (error) {
    if (signal.aborted) return;
    $('notice').textContent = error instanceof Refused ? error.message : `The server does not answer: ${error.message}`;
  } finally {
    if (!signal.aborted) document.body.classList.remove('busy');
  }
}

for (const axis of ['x', 'y']) $(axis).addEventListener('change', () => set(axis, $(axis).value));
$('choice').addEventListener('submit', (event) => event.preventDefault());
addEventListener('hashchange', () => { state = new Map(new URLSearchParams(location.hash.slice(1))); show(); });
document.querySelector('a.skip').addEventListener('click', (event) => { event.preventDefault(); $('map').focus(); });
show();
