// Settings of the five steps as a link. Measurements are not in it: they must be chosen again.

/** Fields of the settings (key, label, hint): known properties of the link, and the place of installation. */
export const GIVEN = [
  ['rate', 'Rate', 'as 10 Mbps'],
  ['delay', 'Delay, one way', 'as 20 ms'],
  ['queue', 'Queue', 'as 100 packets'],
  ['wire-delay', 'Delay of the path behind, one way', 'as 10 ms'],
];
export const BOX = [['interface', 'Interface towards the hop', 'as wlan0']];
export const BOXES = [
  ['near-key', 'Public key in front of the hop', '44 characters'],
  ['far-key', 'Public key at the other end', '44 characters'],
  ['far', 'Where the other end is reached', 'as boat.example; one of both is enough'],
  ['near', 'Where the end in front is reached', 'as shore.example'],
  ['behind-far', 'Networks behind the other end', 'as 10.20.0.0/16, 10.21.0.0/16'],
  ['behind-near', 'Networks behind the end in front', 'as 0.0.0.0/0'],
];
export const CONTROL = [['sender', 'the settings of the machines that send'], ['box', 'a box in front of the hop'], ['boxes', 'boxes at both its ends']];
export const USES = [['bulk', 'downloads'], ['pages', 'web pages'], ['call', 'calls']];

const KEYS = [...GIVEN, ...BOX, ...BOXES].map(([key]) => key).concat('control', 'for', 'runs', 'cure');

/** @param {string} fragment @returns {Map<string, string>} */
export function read(fragment) {
  const words = new URLSearchParams(fragment.replace(/^#/, ''));
  return new Map(KEYS.filter((key) => words.get(key)).map((key) => [key, words.get(key)]));
}

/** @param {Map<string, string>} state @returns {string} */
export function fragment(state) {
  const words = pick(state, KEYS).toString();
  return words ? `#${words.replaceAll('%2C', ',')}` : '';
}

/** Returns some of the settings as a query for the server. @param {Map<string, string>} state @param {string[]} keys */
export function pick(state, keys) {
  return new URLSearchParams(keys.filter((key) => state.get(key)).map((key) => [key, state.get(key)]));
}
