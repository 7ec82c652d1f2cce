// From a link to its cure in five steps: each uses the results of the one before.

import { showError } from './controls.js';
import { download, measurement, receive } from './cure-files.js';
import { BOX, BOXES, CONTROL, GIVEN, PLACES, USES, USUAL, fragment, pick, read } from './cure-state.js';
import { choices, field, showAdvice, showFiles, showLink, showProof } from './cure-views.js';
import { Refused, advise, configuration, link, prove } from './server.js';

const $ = (id) => document.getElementById(id);
const state = read(location.hash);

/** Results of the steps so far. @type {{link: object|null, scenario: string|null, advice: object|null, hop: object|null, proof: object|null}} */
const have = { link: null, scenario: null, advice: null, hop: null, proof: null };
/** Files of the measurement, which are evaluated again when a property of the link changes. @type {File[]} */
let measured = [];
/** Pending requests by step; a new one aborts the previous one. @type {Map<string, AbortController>} */
const asking = new Map();

/** Shows the parts that have results, and the completed steps. */
function show() {
  for (const element of document.querySelectorAll('[data-from]')) element.hidden = !have[element.dataset.from];
  for (const element of document.querySelectorAll('[data-until]')) element.hidden = Boolean(have[element.dataset.until]);
  const done = [have.link, have.scenario, have.advice, $('files').childElementCount > 0 && have.advice, have.proof];
  const links = [...$('steps').querySelectorAll('a')];
  const present = Math.max(0, done.findIndex((is) => !is));
  links.forEach((step, at) => {
    step.classList.toggle('done', Boolean(done[at]));
    if (at === present && !done[at]) step.setAttribute('aria-current', 'step'); else step.removeAttribute('aria-current');
  });
}

/** Discards the results of a step and of those that follow. @param {('link'|'scenario'|'advice'|'hop'|'proof')[]} what */
function forget(...what) {
  for (const name of what) have[name] = null;
  if (what.includes('advice')) { asking.get('advise')?.abort(); $('files').replaceChildren(); $('advise-status').textContent = ''; }
  show();
}

/** @param {string} id of a heading */
function goTo(id) {
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  $(id).focus({ preventScroll: true });
  $(id).scrollIntoView({ behavior: still ? 'auto' : 'smooth', block: 'start' });
}

/** Runs the request of a step; an error is shown beside the control it refers to. @param {string} step @param {string} control @param {(signal: AbortSignal) => Promise<void>} work */
async function ask(step, control, work) {
  asking.get(step)?.abort();
  const asked = new AbortController();
  asking.set(step, asked);
  showError(null, '');
  document.body.classList.add('busy');
  try {
    await work(asked.signal);
  } catch (error) {
    if (asked.signal.aborted) return false;
    const at = error instanceof Refused && error.control && $(`error-${error.control}`) ? error.control : control;
    showError(at, error instanceof TypeError ? `The server does not answer: ${error.message}` : error.message);
    $(`error-${at}`).scrollIntoView({ block: 'nearest' });
    return false;
  } finally {
    if (asking.get(step) === asked) asking.delete(step);
    document.body.classList.toggle('busy', asking.size > 0);
  }
  return !asked.signal.aborted;
}

/** Evaluates the measurement. @param {'first'|'again'} time */
async function measure(time) {
  forget('link', 'scenario', 'advice', 'hop', 'proof');
  $('measure-cancel').hidden = false;
  $('measure-status').textContent = `reading ${measured.map((file) => file.name).join(', ')}`;
  const done = await ask('measure', 'file', async (signal) => {
    have.link = await link(measured, pick(state, GIVEN.map(([key]) => key)), signal);
  });
  if (asking.has('measure')) return;
  $('measure-cancel').hidden = true;
  $('measure-status').textContent = done ? measured.map((file) => file.name).join(', ') : '';
  if (!done) return;
  have.scenario = have.link.scenario;
  show();
  showLink($, have.link);
  if (have.link.lacking.length) {
    $('known').open = true;
    if (time === 'first') goTo('model-heading');
  } else {
    goTo('model-heading');
  }
}

receive($('measurement'), $('measurement-drop'), async (files) => {
  try {
    measured = await measurement(files);
  } catch (error) {
    showError('file', error.message);
    return;
  }
  measure('first');
});
$('measure-cancel').addEventListener('click', () => {
  asking.get('measure')?.abort();
  $('measure-cancel').hidden = true;
  $('measure-status').textContent = 'stopped';
});
$('link-download').addEventListener('click', () => download('link.toml', have.scenario));

/** Handles a changed setting. @param {string} key @param {string} value */
function set(key, value) {
  if (value) state.set(key, value); else state.delete(key);
  history.replaceState(null, '', fragment(state) || location.pathname);
}

$('given').append(...GIVEN.map((one) => field(one, state.get(one[0]) ?? '', (key, value) => {
  set(key, value);
  if (measured.length) measure('again');
})));
/** Dims the advice if the question has changed since. */
function outdate() {
  if (!have.advice) return;
  $('advised').classList.add('outdated');
  $('advise-status').textContent = 'The question has changed; the results below answer the previous one';
}
const listed = (key) => (state.get(key) ?? '').split(',').filter(Boolean);
const choose = (key, usual) => (names) => {
  set(key, names.join() === usual.join() ? '' : names.join(',') || 'none');
  outdate();
};
choices($('control'), CONTROL, listed('control'), choose('control', CONTROL.map(([value]) => value)));
choices($('for'), USES, state.get('for') ? listed('for') : USUAL, choose('for', USUAL));
$('place').replaceChildren(...PLACES.map(([value, label]) => new Option(label, value)));
$('place').value = state.get('place') ?? '';
for (const key of ['place', 'runs']) $(key).addEventListener('change', () => { set(key, $(key).value); outdate(); });
$('runs').value = state.get('runs') ?? '';

$('question').addEventListener('submit', async (event) => {
  event.preventDefault();
  forget('advice', 'hop', 'proof');
  const [button, cancel, bar] = [$('advise'), $('advise-cancel'), $('progress')];
  button.disabled = true;
  cancel.hidden = bar.hidden = false;
  bar.removeAttribute('value');
  $('advise-status').textContent = 'simulating';
  let last = null;
  const done = await ask('advise', 'scenario', (signal) => advise(have.scenario, pick(state, ['control', 'place', 'for', 'runs']), signal, (lines) => {
    for (const line of lines) {
      if (line.total) bar.max = line.total;
      if (line.done) bar.value = line.done;
      if ('advice' in line) last = line;
    }
    if (bar.value) $('advise-status').textContent = `${bar.value} of ${bar.max} runs`;
  }));
  button.disabled = false;
  cancel.hidden = bar.hidden = true;
  if (!done || !last) {
    // An error message suffices.
    $('advise-status').textContent = document.querySelector('p.error:not(:empty)') ? '' : 'stopped';
    return;
  }
  if (!last.advice) { $('advise-status').textContent = 'stopped: this takes too long for a page; use fewer runs, or lasthop advise'; return; }
  const { runs } = last.advice;
  $('advise-status').textContent = `${runs} ${runs === 1 ? 'run' : 'runs'} each${last.complete ? '' : '; the others took too long for a page'}`;
  have.advice = last.advice;
  have.hop = last.hop;
  $('advised').classList.remove('outdated');
  showAdvice($, last.advice, last.words, last.atlas);
  const cures = last.advice.cures.slice(1);
  $('cure').replaceChildren(...cures.map(({ cure, needs }) => new Option(`${cure} (${needs})${cure === last.advice.advice ? ', as advised' : ''}`, cure)));
  $('cure').value = last.advice.advice ?? cures[0]?.cure ?? '';
  show();
  goTo('choose-heading');
  site();
});
$('advise-cancel').addEventListener('click', () => asking.get('advise')?.abort());

/** Shows the settings that the installation of the selected cure needs. */
function site() {
  const { needs } = have.advice.cures.find(({ cure }) => cure === $('cure').value) ?? {};
  const fields = { 'one device': BOX, 'one device at the customer\'s side': BOX, 'a device at each end': BOXES }[needs] ?? [];
  $('keys-hint').hidden = fields !== BOXES;
  $('site').replaceChildren(...fields.map((one) => field(one, state.get(one[0]) ?? '', (key, value) => { set(key, value); install(); })));
  install(fields.map(([key]) => key));
}

/** Creates the files as soon as their settings are known. */
async function install() {
  $('files').replaceChildren();
  show();
  const cure = $('cure').value;
  const keys = [...$('site').querySelectorAll('input')].map((input) => input.id);
  const needed = keys.filter((key) => ['interface', 'near-key', 'far-key'].includes(key));
  if (!cure || needed.some((key) => !state.get(key))) return;
  const words = pick(state, keys);
  words.set('cure', cure);
  if (keys.length > 1) for (const [key, value] of Object.entries(have.hop ?? {})) words.set(key, String(value));
  await ask('install', 'cure', async (signal) => {
    const made = await configuration(words, signal);
    const stem = made.files[0].name.replace(/\.[^.]*$/, '');
    made.files.push({ name: `${stem}.promise.json`, text: `${JSON.stringify(have.advice.promise, null, 2)}\n` });
    showFiles($('files'), made);
    show();
  });
}
$('cure').addEventListener('change', site);

receive($('report'), $('report-drop'), async (files) => {
  forget('proof');
  const promised = have.advice && files.length === 1 ? [new File([JSON.stringify(have.advice.promise)], 'promise.json')] : [];
  $('prove-status').textContent = 'comparing';
  const done = await ask('prove', 'report', async (signal) => {
    const proof = await prove([...files.filter((file) => file.name !== 'promise.json' || !promised.length), ...promised], signal);
    have.proof = proof;
    show();
    showProof($('proof'), proof);
  });
  $('prove-status').textContent = done ? files.map((file) => file.name).join(', ') : '';
});

/** Without this, a file dropped outside of the drop area would replace the page. */
for (const name of ['dragover', 'drop']) addEventListener(name, (event) => event.preventDefault());
// A link to a step is not a setting.
for (const step of document.querySelectorAll('#steps a, a.skip')) {
  step.addEventListener('click', (event) => { event.preventDefault(); goTo(`${step.hash.slice(1)}-heading`); });
}
// Another link is another page.
addEventListener('hashchange', () => location.reload());
if (state.has('rate') || state.has('delay')) $('known').open = true;
show();
