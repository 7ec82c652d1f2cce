// The page: its state is a link, each change asks the server, and what comes back is shown.

import { drawFigure } from './charts.js';
import { Controls, showError } from './controls.js';
import { fragment, query, read } from './link.js';
import { Player } from './player.js';
import { Results } from './results.js';
import { Refused, catalogue, compare, scenario, trace } from './server.js';

const $ = (id) => document.getElementById(id);

let state = read(location.hash);
/** What the server made of the state last. */
let known = null;
let asked = new AbortController();

const controls = new Controls($('controls'), (id, text) => {
  if (text === undefined) delete state.controls[id]; else state.controls[id] = text;
  forgetMoment();
  changed();
});
const results = new Results($('bars'), $('measures'), (scheme) => { state.scheme = scheme; forgetMoment(); changed(); }, showProgress);
const player = new Player($('diagram'), (at, span) => { state.at = at; state.span = span; keep(); });
const plots = {};

/** The diagram's moment belongs to one run. */
function forgetMoment() { delete state.at; delete state.span; }

function keep() {
  history.replaceState(null, '', fragment(state));
  $('download').href = `api/scenario?${query(state)}`;
}

/** Something was set: asks the server anew, and gives up what it was asked before. */
function changed() {
  keep();
  // What the page shows is not of this state until answers come.
  for (const name of ['done', 'firstMs']) delete $('throughput').dataset[name];
  asked.abort();
  asked = new AbortController();
  ask(asked.signal);
}

/** What came of the comparison: when it was asked for, when each scheme had numbers, and whether it has ended. */
let progress = { begun: 0, first: null, done: undefined, drawn: () => {} };

async function ask(signal) {
  const words = query(state);
  document.body.classList.add('busy');
  const drawn = new Promise((drawn) => { progress = { begun: performance.now(), first: null, done: undefined, drawn }; });
  try {
    // First the numbers, which move with the slider, then the packets, then better numbers: each takes what the machine has.
    await compare('first', words, signal, take);
    if (!signal.aborted && results.complete) await drawn;
    if (!signal.aborted) await askRun(words, signal);
    if (!signal.aborted && results.complete && results.runs < known.runs) await compare('compare', words, signal, refined);
    else progress.done = results.complete;
    results.soon();
  } catch (error) {
    if (signal.aborted) return;
    complain(error);
    $('status').textContent = '';
    $('trace-status').textContent = '';
  }
  if (!signal.aborted) document.body.classList.remove('busy');
}

/** @param {Error} error */
function complain(error) {
  if (error instanceof Refused) showError(error.control, error.message);
  else showError(null, `The server does not answer: ${error.message}`);
}

/** The first numbers. @param {object[]} lines */
function take(lines) {
  if (lines[0].state) {
    showError(null, '');
    showState(lines[0].state);
    results.begin(known.schemes);
  }
  refined(lines, false);
}

/** Numbers, as they come. @param {object[]} lines @param {boolean} [last] whether none come after these */
function refined(lines, last = true) {
  const { done } = lines.at(-1);
  // What is cut short stays so, whatever is asked next.
  if (done === false || last) progress.done = done;
  results.take(lines.filter((line) => line.scheme));
}

function showProgress() {
  const { begun, done } = progress;
  const section = $('throughput');
  if (progress.first === null && results.complete) {
    progress.first = performance.now() - begun;
    section.dataset.firstMs = progress.first.toFixed(1);
    progress.drawn();
  }
  if (done !== undefined) section.dataset.done = String(done);
  const runs = `${results.runs} ${results.runs === 1 ? 'run' : 'runs'} of each scheme`;
  const after = progress.first === null ? '' : `; first numbers after ${progress.first.toFixed(0)} ms`;
  if (done === false) $('status').textContent = `stopped: this takes too long for a page; fewer runs or a smaller transfer would do${after}`;
  else $('status').textContent = (results.complete ? runs + (done ? '' : ', more to come') : 'computing') + after;
}

async function askRun(words, signal) {
  const shown = await trace(words, signal);
  if (signal.aborted) return;
  for (const name of ['sequence', 'window']) {
    if (plots[name]) plots[name].update(shown[name]);
    else plots[name] = drawFigure($(name), shown[name], { onTime: (seconds) => player.go(seconds * 1e6) });
  }
  player.show(shown.diagram, state.at, state.span);
  $('diagram-heading').textContent = `Who sends what under ${shown.scheme}`;
  $('trace-status').textContent = shown.cut ? 'A long run: its beginning is shown.' : '';
  $('shown').dataset.drawn = words;
}

/** Puts the server's view of the state into the settings. */
function showState(now) {
  known = now;
  $('scenario').value = now.scenario;
  $('title').textContent = now.title;
  $('description').textContent = now.description ?? '';
  controls.show(now.controls);
  for (const box of $('schemes').querySelectorAll('input')) box.checked = now.schemes.includes(box.value);
  $('scheme').value = now.scheme;
  $('run').value = String(now.run);
  if (document.activeElement !== $('set')) $('set').value = now.set.join('\n');
  if (now.set.length) $('more').open = true;
  $('command').textContent = `lasthop compare FILE --schemes ${now.schemes.join(',')}`;
  results.highlight(now.scheme);
}

function choices({ scenarios, schemes, version }) {
  $('version').textContent = version;
  $('scenario').append(...scenarios.map(({ name, title }) => new Option(`${name}: ${title}`, name)));
  $('scheme').append(...schemes.map(({ name }) => new Option(name, name)));
  for (const family of new Set(schemes.map((scheme) => scheme.family))) {
    const group = document.createElement('div');
    group.className = 'family';
    group.append(Object.assign(document.createElement('p'), { textContent: family.replaceAll('-', ' ') }));
    for (const { name, summary } of schemes.filter((scheme) => scheme.family === family)) {
      const label = Object.assign(document.createElement('label'), { title: summary });
      const box = Object.assign(document.createElement('input'), { type: 'checkbox', value: name });
      box.addEventListener('change', () => choose(boxes().filter((box) => box.checked).map((box) => box.value)));
      label.append(box, ` ${name}`);
      group.append(label);
    }
    $('schemes').append(group);
  }
}

const boxes = () => [...$('schemes').querySelectorAll('input')];

/** @param {string[]} names */
function choose(names) {
  state.schemes = names;
  changed();
}

$('scenario').addEventListener('change', () => {
  // Another scenario has other links and values: only what means the same everywhere is kept.
  state = { run: 0, controls: {}, set: [], scenario: $('scenario').value };
  changed();
});
$('scheme').addEventListener('change', () => { state.scheme = $('scheme').value; forgetMoment(); changed(); });
$('run').addEventListener('change', () => { state.run = Number.parseInt($('run').value, 10) || 0; forgetMoment(); changed(); });
$('set').addEventListener('change', () => { state.set = $('set').value.split('\n').map((line) => line.trim()).filter(Boolean); forgetMoment(); changed(); });
$('all').addEventListener('click', () => choose(boxes().map((box) => box.value)));
$('none').addEventListener('click', () => { for (const box of boxes()) box.checked = false; choose([]); });
$('usual').addEventListener('click', () => { delete state.schemes; changed(); });
$('reset').addEventListener('click', () => { state = { run: 0, controls: {}, set: [], scenario: state.scenario }; $('set').value = ''; changed(); });
$('download').addEventListener('click', async (event) => {
  // The server answers the page's own requests only, not a link that is followed.
  event.preventDefault();
  try {
    const { name, file } = await scenario(query(state));
    const url = URL.createObjectURL(file);
    Object.assign(document.createElement('a'), { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    complain(error);
  }
});
$('settings').addEventListener('submit', (event) => event.preventDefault());
$('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    $('copy').textContent = 'Copied';
  } catch {
    $('copy').textContent = 'The link is in the address bar';
  }
  setTimeout(() => { $('copy').textContent = 'Copy link'; }, 2000);
});
addEventListener('hashchange', () => { state = read(location.hash); changed(); });

try {
  choices(await catalogue());
  changed();
} catch (error) {
  showError(null, `The server does not answer: ${error.message}`);
}
