// Views of the five steps.

import { drawFigure } from './charts.js';
import { download } from './cure-files.js';
import { make, row, scrolled, table } from './dom.js';

const list = (lines) => make('ul', {}, ...lines.map((line) => make('li', { textContent: line })));

/** Creates a field of the settings. @param {string[]} field key, label, hint */
export function field([key, label, hint], value, changed) {
  const input = make('input', { type: 'text', id: key, value, placeholder: hint, spellcheck: false, maxLength: 200, autocomplete: 'off' });
  input.setAttribute('aria-describedby', `error-${key}`);
  let known = value;
  input.addEventListener('change', () => {
    if (input.value.trim() === known) return;
    known = input.value.trim();
    changed(key, known);
  });
  return make('div', { className: 'field' }, make('label', { htmlFor: key, textContent: label }), input, make('p', { className: 'error', id: `error-${key}` }));
}

/** Creates checkboxes; if none is checked, all are. @param {string[][]} choices name, label */
export function choices(element, options, chosen, changed) {
  const boxes = options.map(([value]) => make('input', { type: 'checkbox', value, checked: !chosen.length || chosen.includes(value) }));
  boxes.forEach((box) => box.addEventListener('change', () => changed(boxes.filter((one) => one.checked).map((one) => one.value))));
  element.replaceChildren(...options.map(([, label], at) => make('label', {}, boxes[at], ` ${label}`)));
}

/** Shows the measured link. @param {(id: string) => HTMLElement} $ @param {object} link */
export function showLink($, link) {
  $('link-words').textContent = link.words;
  $('link-remark').textContent = link.remark ?? '';
  $('lacking').textContent = link.lacks ? `${link.lacks}: enter above, under “Known properties of the link”.` : '';
  $('link-download').disabled = !link.scenario;
  $('flow').replaceChildren(...(link.flow.length ? [make('h3', { textContent: 'Limit of the flow with the most data' }), list(link.flow)] : []));
  $('told').replaceChildren(...link.told.flatMap(told));
  // Charts are drawn at their current size, so they must be in the page first.
  const figures = link.pictures.map(({ caption }) => make('figure', {}, make('div'), make('figcaption', { textContent: caption })));
  $('pictures').replaceChildren(...figures);
  link.pictures.forEach(({ figure }, at) => drawFigure(figures[at].firstChild, figure));
}

/** Shows the models of a direction, and which of its properties the scenario has. */
function told({ direction, file, said, models, verdict, statement }) {
  const shown = make('table', {}, make('thead'), make('tbody'));
  table(shown, ['model', 'AIC', 'parameters, with 95 % intervals'], models.map(({ model, aic, chosen, parameters }) => row(
    [model, aic.toFixed(1), make('td', { className: 'words', textContent: parameters.join('; ') })], chosen ? 'best' : '',
  )));
  return [
    make('h3', { textContent: `Losses ${direction}: ${file}` }), list(said), scrolled(shown, `Models, ${direction}`), make('p', { className: 'finding', textContent: verdict.join(' ') }),
    make('h3', { textContent: `Properties in the scenario, ${direction}` }), list(statement),
  ];
}

const times = (gain) => (gain === null ? 'from 0' : gain.toFixed(2));

/** Shows the results of each cure. @param {(id: string) => HTMLElement} $ @param {object} advice as `lasthop advise --json` @param {string[]} words @param {string[]} place in the atlas */
export function showAdvice($, advice, words, place) {
  $('verdict').textContent = words.join(' ');
  $('atlas-place').textContent = place.join(' ');
  $('atlas-link').hidden = !advice.atlas?.inside;
  $('atlas-link').hash = advice.atlas?.address ?? '';
  const uses = advice.cures[0].uses;
  const value = ({ value: { mean, ci95 } }) => mean.toFixed(2) + (ci95 === null ? '' : ` ± ${ci95.toFixed(2)}`);
  table($('cures'), ['cure', 'needs', ...uses.map(({ use, unit }) => `${use}, ${unit}`), 'gain', 'harms'], advice.cures.map((cured) => row(
    [cured.cure, cured.needs, ...cured.uses.map(value), times(cured.gain), cured.harms.join(', ') || '–'], cured.cure === advice.advice ? 'best' : '',
  )));
  $('reasons').replaceChildren(...advice.cures.flatMap(({ cure, does, happened }) => [
    make('dt', { textContent: cure }), make('dd', { textContent: `${does} ${happened}` }),
  ]));
}

/** Shows the files of a cure, and the next steps. @param {HTMLElement} element @param {{files: {name: string, text: string}[], steps: string[]}} made */
export function showFiles(element, { files, steps }) {
  const shown = files.map(({ name, text }) => {
    const button = make('button', { type: 'button', className: 'main', textContent: `Download ${name}` });
    button.addEventListener('click', () => download(name, text));
    const pre = make('pre', { textContent: text, tabIndex: 0 });
    pre.setAttribute('role', 'region');
    pre.setAttribute('aria-label', name);
    return make('div', {}, button, make('details', { open: files.length < 3 && !name.endsWith('.json') }, make('summary', { textContent: name }), pre));
  });
  const commands = steps.map((step) => make('li', {}, make('code', { textContent: step })));
  element.replaceChildren(...shown, make('h3', { textContent: 'Then' }), make('ol', { className: 'plain' }, ...commands));
}

/** Shows the promise beside the measurement. @param {HTMLTableElement} element @param {{report: object, parts: {name: string, words: string, flows: (number|null)[]}[]}} proof */
export function showProof(element, { report, parts }) {
  const judged = [...(report.rules ?? []), ...(report.peers ?? [])];
  const factor = (it) => (it ? `${it.mean.toFixed(2)}${it.interval ? ` (${it.interval.map((end) => end.toFixed(2)).join(' to ')})` : ''}` : 'nothing yet');
  const words = { kept: 'kept', 'fell-short': 'fell short', 'too-few': 'not enough flows yet' };
  table(element, ['rule', 'cure', 'promised, times', 'measured, times', 'connections', ''], parts.map(({ name, words: said, flows }, at) => {
    const { why_none: none, cure, promised, measured, verdict } = judged[at].promise;
    if (none) return row([name, make('td', { className: 'words', colSpan: 5, textContent: said })]);
    const count = flows.some((number) => number === null) ? '–' : `${flows[0]} treated, ${flows[1]} not`;
    return row([name, cure, factor(promised), factor(measured), count, make('td', { className: verdict, textContent: words[verdict] })]);
  }));
}
