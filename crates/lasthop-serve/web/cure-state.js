// Settings of the five steps as a link. Measurements are not in it: they must be chosen again.

/** Fields of the settings (key, label, hint): known properties of the link, and the place of installation. */
export const GIVEN = [
  ['rate', 'Rate', 'as 10 Mbps'],
  ['delay', 'Delay, one way', 'e.g. 20 ms'],
  ['queue', 'Queue', 'as 100 packets'],
  ['wire-delay', 'Delay of the wired path, one way', 'e.g. 10 ms'],
];
export const BOX = [['interface', 'Interface towards the hop', 'e.g. wlan0']];
export const BOXES = [
  ['near-key', 'Public key in front of the hop', '44 characters'],
  ['far-key', 'Public key at the other end', '44 characters'],
  ['far', 'Address of the other end', 'e.g. boat.example; one of the two suffices'],
  ['near', 'Address of the end in front of the hop', 'e.g. shore.example'],
  ['behind-far', 'Networks behind the other end', 'e.g. 10.20.0.0/16, 10.21.0.0/16'],
  ['behind-near', 'Networks behind the end in front', 'e.g. 0.0.0.0/0'],
];
export const CONTROL = [['sender', 'settings of the senders'], ['box', 'one device'], ['boxes', 'a device at each end']];
export const PLACES = [['', 'where it can repair the uses'], ['base-station', 'base station'], ['customer', 'customer'], ['both', 'either side']];
export const USES = [['bulk', 'downloads'], ['upload', 'uploads'], ['pages', 'web pages'], ['call', 'calls']];
/** Uses that are chosen by default. */
export const USUAL = ['bulk', 'pages', 'call'];

const KEYS = [...GIVEN, ...BOX, ...BOXES].map(([key]) => key).concat('control', 'place', 'for', 'runs', 'cure');

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
