// The state of the page as a link: what stands behind the # is what the server is asked, and where the diagram is.

/**
 * @typedef {object} State
 * @property {string} [scenario]
 * @property {string[]} [schemes] the schemes compared; the usual ones where absent
 * @property {string} [scheme] the scheme whose packets are shown
 * @property {string} [beside] another one, shown beside it
 * @property {number} run the run that is shown
 * @property {Record<string, string>} controls what is set, by the control's id
 * @property {string[]} set KEY=VALUE
 * @property {number} [at] the diagram's moment, in microseconds
 * @property {number} [span] how much time the diagram shows, in microseconds
 * @property {string} [find] where there is no moment: what the diagram begins with, by the name of its search
 * @property {number} [tour] the step of the tour, from 1
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

/** What the server is asked. @param {State} state @returns {string} */
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

/** The whole state. @param {State} state @returns {string} */
export function fragment(state) {
  const words = new URLSearchParams(query(state));
  for (const key of ['beside', 'find', 'tour']) if (state[key]) words.set(key, String(state[key]));
  for (const key of ['at', 'span']) if (state[key] !== undefined) words.set(key, String(Math.round(state[key])));
  // A comma is legal there, and a list of schemes is easier to read with it.
  return `#${words.toString().replaceAll('%2C', ',')}`;
}
