// State of the page as a link: the fragment contains the query for the server, and the position of the diagram.

/**
 * @typedef {object} State
 * @property {string} [scenario]
 * @property {string[]} [schemes] compared schemes; the usual ones if absent
 * @property {string} [scheme] scheme whose packets are shown
 * @property {string} [beside] second scheme, shown beside it
 * @property {number} run number of the run that is shown
 * @property {Record<string, string>} controls values by the control's id
 * @property {string[]} set KEY=VALUE
 * @property {number} [at] position of the diagram, in microseconds
 * @property {number} [span] time span of the diagram, in microseconds
 * @property {string} [find] without `at`: name of the search whose first event the diagram shows
 * @property {number} [tour] step of the tour, from 1
 */

/** @param {string} fragment @returns {State} */
export function read(fragment) {
  /** @type {State} */
  const state = { run: 0, controls: {}, set: [] };
  for (const [key, value] of new URLSearchParams(fragment.replace(/^#/, ''))) {
    switch (key) {
      case 'scenario': case 'scheme': case 'beside': case 'find': state[key] = value; break;
      case 'schemes': state.schemes = value.split(',').filter(Boolean); break;
      case 'run': state.run = Number.parseInt(value, 10) || 0; break;
      case 'set': state.set.push(value); break;
      case 'at': case 'span': case 'tour': if (Number.isFinite(Number(value))) state[key] = Number(value); break;
      default: state.controls[key] = value;
    }
  }
  return state;
}

/** Returns the query for the server. @param {State} state @returns {string} */
export function query(state) {
  const words = new URLSearchParams();
  if (state.scenario) words.set('scenario', state.scenario);
  if (state.schemes) words.set('schemes', state.schemes.join(','));
  for (const [id, text] of Object.entries(state.controls)) words.set(id, text);
  for (const text of state.set) words.append('set', text);
  if (state.scheme) words.set('scheme', state.scheme);
  if (state.run) words.set('run', String(state.run));
  return words.toString();
}

/** Returns the whole state as a fragment. @param {State} state @returns {string} */
export function fragment(state) {
  const words = new URLSearchParams(query(state));
  for (const key of ['beside', 'find', 'tour']) if (state[key]) words.set(key, String(state[key]));
  for (const key of ['at', 'span']) if (state[key] !== undefined) words.set(key, String(Math.round(state[key])));
  // A comma is legal there, and makes a list of schemes easier to read.
  return `#${words.toString().replaceAll('%2C', ',')}`;
}
