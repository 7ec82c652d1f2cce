// The page: its state is a link; each change sends a request to the server, and the answer is shown.

import { drawFigure } from './charts.js';
import { Controls, showError } from './controls.js';
import { fragment, query, read } from './link.js';
import { cardOf, keyOf } from './picture.js';
import { Player } from './player.js';
import { Results } from './results.js';
import { Refused, catalogue, compare, scenario, trace } from './server.js';
import { Tour } from './tour.js';

const $ = (id) => document.getElementById(id);

let state = read(location.hash);
/** Server's view of the last state. */
let known = null;
/** Explanations of the schemes by name. @type {Map<string, import('./picture.js').About>} */
let abouts = new Map();
let asked = new AbortController();

const controls = new Controls($('controls'), (id, text) => {
  // Keys of the control are removed from the other settings.
  const keys = known?.controls.find((control) => control.id === id)?.keys ?? [];
  const under = (line) => keys.some((key) => `${line.split('=')[0].trim()}.`.startsWith(`${key}.`));
  state.set = state.set.filter((line) => !under(line));
  if (text === undefined) delete state.controls[id]; else state.controls[id] = text;
  forgetMoment();
  changed();
});
const results = new Results({ bars: $('bars'), table: $('measures'), remarks: $('remarks'), columns: $('columns'), finding: $('finding') },
  (scheme) => { state.scheme = scheme; forgetMoment(); changed('push'); }, showProgress);
const player = new Player($('diagram'), (at, span) => { state.at = at; state.span = span; delete state.find; keep(); });
const tour = new Tour($('tour'), $('tour-start'), () => fragment({ ...state, tour: undefined }));
const plots = {};
/** Plots over time that are zoomed together. */
const together = [];

/** Forgets the diagram's position, which belongs to one run. */
function forgetMoment() { delete state.at; delete state.span; delete state.find; }

/** Puts the state into the address; `push` adds a history entry, so that Back undoes a choice. @param {'push'} [push] */
function keep(push) {
  const link = fragment(state);
  if (push && link !== location.hash) history.pushState(null, '', link); else history.replaceState(null, '', link);
  $('download').href = `api/scenario?${query(state)}`;
  tour.update(state.tour);
}

/** Handles a change: sends a new request, and aborts the previous one. @param {'push'} [push] */
function changed(push) {
  keep(push);
  // Until answers arrive, the page shows a previous state.
  for (const name of ['done', 'firstMs']) delete $('throughput').dataset[name];
  results.expect();
  $('shown').classList.add('old');
  age('waiting');
  asked.abort();
  asked = new AbortController();
  ask(asked.signal);
}

/** Dims numbers that do not belong to the current state: after a moment while new ones are computed, at once after an error. @param {'waiting'|'failed'|null} why */
function age(why) {
  for (const id of ['throughput', 'numbers']) $(id).classList.toggle('old', why !== null && !results.fresh);
  document.body.classList.toggle('failed', why === 'failed');
}

/** Progress of the comparison: time of the request, time of the first numbers, and whether it has ended. */
let progress = { begun: 0, first: null, done: undefined, drawn: () => {} };

async function ask(signal) {
  const words = query(state);
  const beside = state.beside && state.beside !== state.scheme ? query({ ...state, scheme: state.beside }) : null;
  document.body.classList.add('busy');
  const drawn = new Promise((drawn) => { progress = { begun: performance.now(), first: null, done: undefined, drawn }; });
  try {
    // First numbers, which follow the slider, then packets, then more precise numbers: each uses all cores.
    await compare('first', words, signal, (lines) => chosen.then(() => { if (!signal.aborted) take(lines); }));
    await chosen;
    if (!signal.aborted && results.complete) await drawn;
    if (!signal.aborted) await askRun(words, beside, signal);
    if (!signal.aborted && results.complete && results.runs < known.runs) await compare('compare', words, signal, refined);
    else progress.done = results.complete;
    results.soon();
  } catch (error) {
    if (signal.aborted) return;
    complain(error);
    $('trace-status').textContent = '';
  }
  if (!signal.aborted) document.body.classList.remove('busy');
}

/** @param {Error} error */
function complain(error) {
  age('failed');
  const message = error instanceof Refused ? error.message : `The server does not answer: ${error.message}`;
  showError(error instanceof Refused ? error.control : null, message);
  const old = results.runs && !results.fresh;
  $('notice').textContent = old ? `${message}. The numbers below are outdated.` : message;
  $('status').textContent = '';
}

/** Shows the first numbers. @param {object[]} lines */
function take(lines) {
  if (lines[0].state) {
    showError(null, '');
    $('notice').textContent = '';
    showState(lines[0].state);
    results.begin(known);
  }
  refined(lines, false);
}

/** Shows numbers as they arrive. @param {object[]} lines @param {boolean} [last] whether none come after these */
function refined(lines, last = true) {
  const { done } = lines.at(-1);
  // A result that was cut short stays marked, whatever is requested next.
  if (done === false || last) progress.done = done;
  for (const { without_loss } of lines) if (without_loss) results.takeWithout(without_loss);
  results.take(lines.filter((line) => line.scheme));
  if (done === false) results.end();
}

function showProgress() {
  const { begun, done } = progress;
  const section = $('throughput');
  if (progress.first === null && results.complete) {
    progress.first = performance.now() - begun;
    section.dataset.firstMs = progress.first.toFixed(1);
    progress.drawn();
  }
  if (results.fresh) age(null);
  if (done !== undefined) section.dataset.done = String(done);
  if ($('notice').textContent) return;
  const runs = `${results.runs} ${results.runs === 1 ? 'run' : 'runs'} per scheme`;
  const after = progress.first === null ? '' : `; first numbers after ${progress.first.toFixed(0)} ms`;
  if (done === false) $('status').textContent = `stopped: this takes too long for a page; use fewer runs or a smaller transfer${after}`;
  else $('status').textContent = (results.complete ? runs + (done ? '' : ', more to come') : 'computing') + after;
}

async function askRun(words, beside, signal) {
  const shown = [await trace(words, signal)];
  if (beside && !signal.aborted) shown.push(await trace(beside, signal));
  if (signal.aborted) return;
  for (const name of ['sequence', 'window']) {
    // Side by side, on the same scales.
    const extent = extentOf(shown.map((run) => run[name]));
    [name, `${name}-beside`].forEach((id, index) => {
      $(id).hidden = !shown[index];
      if (!shown[index]) return;
      // A scheme has the colour of its bar.
      const colours = [results.colourOf(shown[index].scheme)];
      if (plots[id]) plots[id].update(shown[index][name], extent, colours);
      else plots[id] = drawFigure($(id), shown[index][name], { onTime: (seconds) => player.go(seconds * 1e6), extent, together, colours });
    });
  }
  player.show(shown, state.at, state.span, state.find);
  $('diagram-heading').textContent = `Packet exchange under ${shown.map((run) => run.scheme).join(' and ')}`;
  const told = [];
  if (shown[0].flows > 1) told.push(`Showing one of ${shown[0].flows} flows: ${shown[0].diagram.flow}.`);
  const cut = shown.filter((run) => run.cut).map((run) => `${(run.diagram.end / 1e6).toFixed(2)} s`);
  if (cut.length) told.push(`Showing the first ${[...new Set(cut)].join(' and ')} of a long run.`);
  // The timers distinguish endpoints of 1997 from modern ones.
  told.push(...shown.filter((run) => run.timers).map((run) => `${run.scheme}: ${run.timers}.`));
  $('trace-status').textContent = told.join(' ');
  $('shown').dataset.drawn = words;
  $('shown').classList.remove('old');
  tour.arrived();
}

/** Returns the extent of figures over time. @param {object[]} figures */
function extentOf(figures) {
  let [x, y] = [0, 0];
  for (const series of figures.flatMap((figure) => figure.series)) {
    for (const points of [series.sent, series.retransmitted, series.points]) {
      for (const point of points ?? []) { x = Math.max(x, point[0]); y = Math.max(y, point[1]); }
    }
  }
  return { x, y };
}

/** Applies the server's view of the state to the settings. */
function showState(now) {
  known = now;
  $('scenario').value = now.scenario;
  // The title of the selected scenario is shown below: beside the name it would be truncated.
  for (const option of $('scenario').options) option.label = option.selected ? option.value : option.text;
  $('title').textContent = now.title;
  $('description').textContent = now.description ?? '';
  controls.show(now.controls);
  for (const box of boxes()) box.checked = now.schemes.includes(box.value);
  $('scheme').value = now.scheme;
  $('beside').value = state.beside && state.beside !== now.scheme ? state.beside : '';
  $('run').value = String(now.run);
  if (document.activeElement !== $('set')) $('set').value = now.set.join('\n');
  if (now.set.length) $('more').open = true;
  $('command').textContent = `lasthop compare FILE --schemes ${now.schemes.join(',')}`;
  const shown = [now.scheme, $('beside').value].filter(Boolean);
  results.highlight(shown);
  if ($('cards').dataset.of !== shown.join()) {
    $('cards').dataset.of = shown.join();
    $('cards').replaceChildren(...shown.filter((name) => abouts.has(name)).map((name) => cardOf(name, abouts.get(name))), keyOf());
  }
}

function choices({ scenarios, schemes, version }) {
  $('version').textContent = version;
  abouts = new Map(schemes.map(({ name, about }) => [name, about]));
  results.know(schemes);
  $('scenario').append(...scenarios.map(({ name, title }) => new Option(`${name}: ${title}`, name)));
  for (const id of ['scheme', 'beside']) $(id).append(...schemes.map(({ name }) => new Option(name, name)));
  for (const family of new Set(schemes.map((scheme) => scheme.family))) {
    const group = document.createElement('div');
    group.className = 'family';
    group.append(Object.assign(document.createElement('p'), { textContent: family.replaceAll('-', ' ') }));
    for (const scheme of schemes.filter((scheme) => scheme.family === family)) group.append(...choiceOf(scheme));
    $('schemes').append(group);
  }
}

/** Creates a scheme's checkbox, with a button for its explanation. */
function choiceOf({ name, summary, about }) {
  const label = Object.assign(document.createElement('label'), { title: summary });
  const box = Object.assign(document.createElement('input'), { type: 'checkbox', value: name });
  box.addEventListener('change', () => choose(boxes().filter((box) => box.checked).map((box) => box.value)));
  label.append(box, ` ${name}`);
  const card = Object.assign(cardOf(name, about), { hidden: true, id: `card-${name.replace(/[^a-z0-9]/gi, '-')}` });
  const why = Object.assign(document.createElement('button'), { type: 'button', className: 'why', textContent: '?', title: `What ${name} does` });
  why.setAttribute('aria-label', `What ${name} does`);
  why.setAttribute('aria-expanded', 'false');
  why.setAttribute('aria-controls', card.id);
  why.addEventListener('click', () => {
    card.hidden = !card.hidden;
    why.setAttribute('aria-expanded', String(!card.hidden));
  });
  const row = Object.assign(document.createElement('div'), { className: 'scheme' });
  row.append(label, why);
  return [row, card];
}

const boxes = () => [...$('schemes').querySelectorAll('input[type=checkbox]')];

/** @param {string[]} names */
function choose(names) {
  state.schemes = names;
  changed('push');
}

$('scenario').addEventListener('change', () => {
  // Another scenario has other links and values: keep only settings that mean the same everywhere.
  state = { run: 0, controls: {}, set: [], scenario: $('scenario').value };
  changed('push');
});
$('scheme').addEventListener('change', () => { state.scheme = $('scheme').value; forgetMoment(); changed('push'); });
$('beside').addEventListener('change', () => {
  if ($('beside').value) state.beside = $('beside').value; else delete state.beside;
  // The link states the displayed scheme, so that it does not depend on the default.
  state.scheme = $('scheme').value;
  forgetMoment();
  changed('push');
});
$('run').addEventListener('change', () => { state.run = Number.parseInt($('run').value, 10) || 0; forgetMoment(); changed(); });
$('set').addEventListener('change', () => { state.set = $('set').value.split('\n').map((line) => line.trim()).filter(Boolean); forgetMoment(); changed(); });
$('all').addEventListener('click', () => choose(boxes().map((box) => box.value)));
$('none').addEventListener('click', () => { for (const box of boxes()) box.checked = false; choose([]); });
$('usual').addEventListener('click', () => { delete state.schemes; changed('push'); });
$('reset').addEventListener('click', () => { state = { run: 0, controls: {}, set: [], scenario: state.scenario }; $('set').value = ''; changed('push'); });
$('download').addEventListener('click', async (event) => {
  // The server answers requests of the page only, not a link that is followed.
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
/** Anchors within the page, which are not states of it. */
const SECTIONS = new Set([...document.querySelectorAll('a.skip')].map((link) => link.hash));
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
// A followed link, or the browser's Back and Forward.
addEventListener('hashchange', () => {
  if (SECTIONS.has(location.hash)) { history.replaceState(null, '', fragment(state)); return; }
  state = read(location.hash);
  $('set').value = state.set.join('\n');
  changed();
});

/** Scenarios and schemes, which are requested together with the first numbers. */
const chosen = catalogue().then(choices);
// A failure is shown where it is awaited.
chosen.catch(() => {});
changed();
