// Small picture of a scheme: sender, base station and receiver, which of them take part, where lost data is
// retransmitted from, and what happens to duplicate acknowledgments.

/**
 * @typedef {{does: string, effect: string, sender: string, base_station: string|null, receiver: string|null,
 *   resends: 'sender'|'both'|'base-station', duplicates: 'pass'|'kept-back'|'end-at-base-station'|'none'}} About
 */

export const svg = (name, attributes = {}, ...children) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
};

const WIDTH = 340;
const HEIGHT = 128;
/** Positions of the three nodes, and the line between them. */
const X = { sender: 54, base: 172, receiver: 288 };
const Y = 58;

const path = (d, name) => svg('path', { d, class: name });

const ICONS = {
  sender: (x) => [svg('rect', { x: x - 11, y: Y - 14, width: 22, height: 28, rx: 3 }), path(`M${x - 6} ${Y - 7}h12M${x - 6} ${Y - 1}h12M${x - 6} ${Y + 5}h6`, 'detail')],
  base: (x) => [path(`M${x - 9} ${Y + 14}L${x} ${Y - 8}L${x + 9} ${Y + 14}Z`), path(`M${x - 8} ${Y - 15}a10 10 0 0 0 0 12M${x + 8} ${Y - 15}a10 10 0 0 1 0 12`, 'detail'), svg('circle', { cx: x, cy: Y - 9, r: 2.6 })],
  receiver: (x) => [svg('rect', { x: x - 9, y: Y - 15, width: 18, height: 30, rx: 3.5 }), path(`M${x - 3} ${Y + 10}h6`, 'detail')],
};

/** Returns an arc between two nodes above the line, with an arrowhead. */
function arc(from, to, height, name) {
  const top = Y - 20;
  const tip = path(`M${to} ${top}l-7 -2l3.6 -5.4z`, `${name} tip`);
  return [path(`M${from} ${top}C${from} ${top - height} ${to} ${top - height} ${to - 2} ${top - 3}`, name), tip];
}

/** Returns the path of an acknowledgment below the line. */
function back(from, to, name, end) {
  const y = Y + 24;
  const tip = end === 'stop'
    ? [svg('circle', { cx: to, cy: y, r: 5.5, class: `${name} stop` }), path(`M${to - 3.8} ${y + 3.8}l7.6 -7.6`, `${name} stop`)]
    : [path(`M${to} ${y}l7 -3.6v7.2z`, `${name} tip`)];
  return [path(`M${from} ${y}H${to + 6}`, name), ...tip];
}

/** Returns the text below a node, in as many lines as needed. */
function caption(x, words) {
  const lines = [];
  for (const word of words.split(' ')) {
    if (lines.length && `${lines.at(-1)} ${word}`.length <= 17) lines[lines.length - 1] += ` ${word}`; else lines.push(word);
  }
  return svg('text', { x, y: Y + 45, 'text-anchor': 'middle' }, ...lines.map((line, index) => svg('tspan', { x, dy: index ? 12 : 0 }, line)));
}

/** @param {About} about @param {string} name */
export function pictureOf(about, name) {
  const picture = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'picture', role: 'img', 'aria-label': `Where ${name} acts. ${inWords(about)}` });
  picture.append(path(`M${X.sender + 14} ${Y}H${X.base - 14}`, 'wire'), path(`M${X.base + 14} ${Y}H${X.receiver - 14}`, 'radio'));
  // The loss that the scheme handles.
  const loss = (X.base + X.receiver) / 2;
  picture.append(path(`M${loss - 5} ${Y - 5}l10 10m0 -10l-10 10`, 'loss'));
  const parts = { sender: about.resends === 'base-station' ? null : about.sender, base: about.base_station, receiver: about.receiver };
  for (const [node, words] of Object.entries(parts)) {
    picture.append(svg('g', { class: words ? 'node acts' : 'node' }, ...ICONS[node](X[node])));
    picture.append(svg('g', { class: words ? 'words acts' : 'words' }, caption(X[node], words ?? { sender: 'sender', base: 'base station', receiver: 'receiver' }[node])));
  }
  if (about.resends !== 'base-station') picture.append(...arc(X.sender, X.receiver, 38, 'source'));
  if (about.resends !== 'sender') picture.append(...arc(X.base + 6, X.receiver - 6, 20, 'local'));
  if (about.duplicates === 'pass') picture.append(...back(X.receiver, X.sender, 'duplicates'));
  if (about.duplicates === 'kept-back') picture.append(...back(X.receiver, X.base, 'duplicates', 'stop'));
  if (about.duplicates === 'end-at-base-station') picture.append(...back(X.receiver, X.base, 'duplicates'));
  return picture;
}

const inWords = ({ resends, duplicates, base_station, receiver }) => [
  { 'sender': 'Lost data is retransmitted by the sender, over the whole path', 'both': 'Lost data is retransmitted by the base station, and possibly also by the sender', 'base-station': 'Lost data is retransmitted by the base station, over the lossy link' }[resends],
  { 'pass': 'duplicate acknowledgments reach the sender', 'kept-back': 'duplicate acknowledgments are suppressed at the base station', 'end-at-base-station': 'acknowledgments of the second connection end at the base station', 'none': 'there are no duplicate acknowledgments' }[duplicates],
  ...(base_station ? [`the base station: ${base_station}`] : []), ...(receiver ? [`the receiver: ${receiver}`] : []),
].join('; ');

/** Explains a scheme with its picture and two sentences. @param {string} name @param {About} about */
export function cardOf(name, about) {
  const card = document.createElement('div');
  card.className = 'card';
  const words = document.createElement('p');
  words.append(Object.assign(document.createElement('b'), { textContent: `${name}. ` }), `${about.does} ${about.effect}`);
  card.append(pictureOf(about, name), words);
  return card;
}

/** Creates the legend of the pictures. */
export function keyOf() {
  const list = document.createElement('ul');
  list.className = 'picture-key';
  for (const [name, words] of [['source', 'retransmitted by the sender'], ['local', 'retransmitted by the base station'], ['duplicates', 'duplicate acknowledgments']]) {
    const item = document.createElement('li');
    const line = svg('svg', { viewBox: '0 0 26 10', width: 26, height: 10, 'aria-hidden': 'true', class: 'picture' }, path('M1 5H25', name));
    item.append(line, words);
    list.append(item);
  }
  return list;
}
