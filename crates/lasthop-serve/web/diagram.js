// Time-sequence diagram: a vertical line for each node, time running downwards, and an arrow between nodes for each
// packet.

/**
 * @typedef {{sent: number, ended: number, from: number, to: number, kind: string, fate: string, number: number, len: number, cause: string}} Arrow
 * @typedef {{time: number, lane: number, event: string, number: number|null}} Note
 * @typedef {{flow: string, lanes: string[], arrows: Arrow[], notes: Note[], end: number}} Data times in microseconds
 */

/** Widths of the picture: on a screen, and on a phone. */
export const WIDE = 720;
export const NARROW = 400;
const HEIGHT = 460;
/** Height if two are stacked on a phone. */
const LOW = 300;
const HEAD = 30;
/** Distance of the current time from the bottom; the past is above it. */
const FOOT = 26;
/** Maximum number of arrows that have labels. */
const LABELLED = 36;
/** Position of a label along its arrow. */
const LABEL_AT = 0.3;
/** Maximum number of arrows drawn: more would be indistinguishable. */
const MOST = 1500;

/** Names of kinds and fates for display. */
export const KINDS = {
  'data': 'data',
  'source-retransmission': 'retransmission by the source',
  'local-retransmission': 'local retransmission',
  'ack': 'acknowledgment',
  'duplicate-ack': 'duplicate acknowledgment',
  'handshake': 'handshake',
  'link-control': 'link protocol control',
  'datagram': 'datagram',
};
const FATES = {
  'arrived': 'arrives', 'damaged': 'arrives damaged', 'lost': 'lost on the link', 'queue-full': 'dropped by a full queue',
  'filtered': 'filtered from the queue, covered by a later acknowledgment',
  'suppressed': 'suppressed by the base station', 'absorbed': 'dropped by the base station as old', 'underway': 'still in flight',
};
const EVENTS = {
  'timeout': 'timeout', 'recovery-entered': 'loss recovery begins', 'recovery-left': 'loss recovery ends',
  'tail-probe': 'probes the tail', 'undone-by-duplicates': 'undoes the reduction', 'undone-by-timestamps': 'undoes the reduction',
  'undone-by-frto': 'undoes the timeout', 'eln-marked': 'marks the ACK: loss was corruption',
  'dupack-suppressed': 'suppresses the duplicate ACK', 'absorbed': 'drops an old packet', 'established': 'connected', 'closed': 'closed',
  'peer-closed': 'all received', 'aborted': 'gives up', 'zero-window': 'window is closed', 'evicted': 'forgets the flow',
};
/** Notes that are drawn; the others appear in the text only. */
const SHOWN_NOTES = new Set(['timeout', 'recovery-entered', 'recovery-left', 'tail-probe', 'undone-by-duplicates', 'undone-by-timestamps', 'undone-by-frto', 'eln-marked', 'aborted', 'zero-window', 'evicted']);

/** Converts the server's lists to objects. @returns {Data} */
export function unpack({ flow, lanes, packets, notes, end }) {
  const names = ['sent', 'ended', 'from', 'to', 'kind', 'fate', 'number', 'len', 'cause'];
  const arrows = packets.map((values) => Object.fromEntries(names.map((name, index) => [name, values[index]])));
  return { flow, lanes, arrows, notes, end };
}

/** Formats a time in seconds, to the microsecond. @param {number} micros */
export const seconds = (micros) => `${(micros / 1e6).toFixed(6)} s`;

/** Formats a duration in a suitable unit. @param {number} micros */
export const duration = (micros) => (micros < 1e6 ? `${Number((micros / 1e3).toPrecision(3))} ms` : `${Number((micros / 1e6).toPrecision(3))} s`);

/** Returns the name of a packet: bytes of the stream, or the number that it acknowledges. @param {Arrow} arrow */
export function nameOf(arrow) {
  if (arrow.len > 0) return `bytes ${arrow.number}–${arrow.number + arrow.len - 1}`;
  return arrow.kind === 'ack' || arrow.kind === 'duplicate-ack' ? `ACK ${arrow.number}` : KINDS[arrow.kind];
}

/** Describes a packet and its fate. @param {Data} data @param {Arrow} arrow */
export function arrowInWords(data, arrow) {
  const [name, kind] = [nameOf(arrow), KINDS[arrow.kind]];
  const what = name === kind ? name : `${name}, ${kind}`;
  const why = arrow.kind.endsWith('retransmission') ? ` (${arrow.cause.replaceAll('-', ' ')})` : '';
  return `${data.lanes[arrow.from]} → ${data.lanes[arrow.to]}: ${what}${why}, ${FATES[arrow.fate]}`;
}

/** @param {Data} data @param {Note} note */
export function noteInWords(data, note) {
  const at = note.number === null ? '' : ` at byte ${note.number}`;
  return `${data.lanes[note.lane]}: ${EVENTS[note.event] ?? note.event}${at}`;
}

/** Returns the index of the first entry whose time is not less than `bound`. @template T @param {T[]} list @param {(entry: T) => number} time @param {number} bound */
export function firstFrom(list, time, bound) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time(list[middle]) < bound) low = middle + 1; else high = middle;
  }
  return low;
}

const svg = (name, attributes = {}, text) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
};

export class Diagram {
  /** @param {Data} data @param {number} width @param {{low?: boolean}} [options] */
  constructor(data, width, { low = false } = {}) {
    this.data = data;
    this.width = width;
    this.height = low ? LOW : HEIGHT;
    this.now = this.height - FOOT;
    this.longest = data.arrows.reduce((most, arrow) => Math.max(most, arrow.ended - arrow.sent), 0);
    this.element = svg('svg', { viewBox: `0 0 ${width} ${this.height}`, class: 'lanes', role: 'img' });
    this.field = svg('g');
    // Packets are clipped below the nodes' names.
    const inner = svg('svg', { x: 0, y: HEAD, width, height: this.height - HEAD, viewBox: `0 ${HEAD} ${width} ${this.height - HEAD}` });
    inner.append(this.field);
    this.element.append(this.frame(), inner);
  }

  /** @param {number} index */
  x(index) {
    const lanes = Math.max(this.data.lanes.length, 2);
    const margin = this.width * 0.125;
    return margin + (index * (this.width - 2 * margin)) / (lanes - 1);
  }

  frame() {
    const group = svg('g', { class: 'frame' });
    this.data.lanes.forEach((name, index) => {
      group.append(svg('line', { x1: this.x(index), x2: this.x(index), y1: HEAD, y2: this.height }));
      group.append(svg('text', { x: this.x(index), y: 18, 'text-anchor': 'middle' }, name));
    });
    return group;
  }

  /** Returns what is visible: packets sent or in flight, and notes, within `span` before `at`. @param {number} at @param {number} span */
  visible(at, span) {
    const { arrows, notes } = this.data;
    const from = at - span;
    const first = firstFrom(arrows, (arrow) => arrow.sent, from - this.longest);
    const last = firstFrom(arrows, (arrow) => arrow.sent, at + 0.5);
    const shown = [];
    for (let index = last - 1; index >= first && shown.length < MOST; index--) {
      if (arrows[index].ended >= from) shown.push(arrows[index]);
    }
    const within = notes.slice(firstFrom(notes, (note) => note.time, from), firstFrom(notes, (note) => note.time, at + 0.5));
    return { arrows: shown.reverse(), notes: within };
  }

  /** Draws the `span` before `at`, both in microseconds. @param {number} at @param {number} span */
  draw(at, span) {
    const y = (time) => this.now - ((at - time) / span) * (this.now - HEAD);
    const { arrows, notes } = this.visible(at, span);
    const group = svg('g');
    this.grid(group, at, span, y);
    const labelled = arrows.length <= LABELLED;
    for (const arrow of arrows) group.append(this.arrow(arrow, at, y, labelled));
    for (const note of notes) if (SHOWN_NOTES.has(note.event)) group.append(this.note(note, y));
    if (!arrows.length) group.append(...this.silence(at));
    group.append(svg('line', { class: 'now', x1: 0, x2: this.width, y1: this.now, y2: this.now }));
    this.field.replaceWith(group);
    this.field = group;
    this.element.setAttribute('aria-label', `${arrows.length || 'No'} packets from ${seconds(Math.max(at - span, 0))} to ${seconds(at)}; the table below lists them`);
  }

  /** Describes why there is nothing to see. @param {number} at */
  silence(at) {
    const { arrows } = this.data;
    const next = firstFrom(arrows, (arrow) => arrow.sent, at + 0.5);
    const before = arrows.slice(0, next).reduce((last, arrow) => Math.max(last, arrow.ended), -1);
    const lines = ['Nothing is in flight.'];
    if (before >= 0) lines.push(`The last packet arrived ${duration(at - before)} ago.`);
    lines.push(next < arrows.length ? `The next one is sent in ${duration(arrows[next].sent - at)}.` : 'No further packets are sent.');
    return lines.map((words, index) => svg('text', { class: 'silence', x: this.width / 2, y: (HEAD + this.now) / 2 + index * 20 - 20, 'text-anchor': 'middle' }, words));
  }

  grid(group, at, span, y) {
    // Steps of 1, 2 or 5 times a power of ten that give four to ten lines.
    const power = 10 ** Math.floor(Math.log10(span / 4));
    const step = [5, 2, 1].map((factor) => factor * power).find((step) => span / step >= 4) ?? power;
    for (let time = Math.max(0, Math.ceil((at - span) / step) * step); time <= at; time += step) {
      group.append(svg('line', { class: 'tick', x1: 0, x2: this.width, y1: y(time), y2: y(time) }));
      const decimals = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step))));
      group.append(svg('text', { class: 'time', x: 2, y: y(time) - 3 }, `${(time / 1e6).toFixed(decimals)} s`));
    }
  }

  /** Draws one packet, up to its current position. */
  arrow(arrow, at, y, labelled) {
    const group = svg('g', { class: `arrow ${arrow.kind} ${arrow.fate}` });
    const [x1, y1] = [this.x(arrow.from), y(arrow.sent)];
    const flight = Math.max(arrow.ended - arrow.sent, 1);
    const over = at >= arrow.ended;
    // A packet that a queue drops ends near its start; one that the channel destroys ends near its destination.
    const reach = arrow.fate === 'queue-full' || arrow.fate === 'filtered' ? 0.12 : arrow.fate === 'lost' ? 0.72 : 1;
    const progress = Math.min((at - arrow.sent) / flight, 1) * reach;
    const dx = this.x(arrow.to) - x1;
    const dy = y(arrow.ended) - y1;
    const [x2, y2] = [x1 + dx * progress, y1 + dy * progress];
    group.append(svg('line', { x1, y1, x2, y2 }));
    if (!over) group.append(svg('circle', { class: 'head', cx: x2, cy: y2, r: 3.5 }));
    else group.append(...this.tip(arrow, x2, y2, Math.atan2(dy, dx)));
    if (labelled && progress > LABEL_AT) {
      const side = Math.sign(dx) || 1;
      const text = arrow.len > 0 ? `${arrow.number}` : arrow.kind.endsWith('ack') ? `ack ${arrow.number}` : arrow.cause;
      const [x, y] = [x1 + dx * LABEL_AT, y1 + dy * LABEL_AT];
      const slope = (Math.atan2(dy * side, dx * side) * 180) / Math.PI;
      group.append(svg('text', { x, y: y - 3, 'text-anchor': 'middle', transform: `rotate(${slope.toFixed(1)} ${x} ${y})` }, text));
    }
    group.append(svg('title', {}, arrowInWords(this.data, arrow)));
    return group;
  }

  /** Draws the end of a packet's journey. */
  tip(arrow, x, y, angle) {
    const cross = (size) => svg('path', { class: 'cross', d: `M${x - size} ${y - size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}` });
    switch (arrow.fate) {
      case 'lost': case 'queue-full': return [cross(5)];
      case 'underway': return [];
      case 'suppressed': case 'absorbed': case 'filtered':
        return [svg('circle', { class: 'stop', cx: x, cy: y, r: 6.5 }), svg('line', { class: 'stop', x1: x - 4.6, y1: y + 4.6, x2: x + 4.6, y2: y - 4.6 })];
      default: {
        const corner = (turn) => `${x - 8 * Math.cos(angle + turn)} ${y - 8 * Math.sin(angle + turn)}`;
        const tip = svg('path', { class: 'tip', d: `M${x} ${y}L${corner(0.4)}L${corner(-0.4)}Z` });
        return arrow.fate === 'damaged' ? [tip, cross(3.5)] : [tip];
      }
    }
  }

  note(note, y) {
    const group = svg('g', { class: `note ${note.event}` });
    const x = this.x(note.lane);
    const words = note.event.replaceAll('-', ' ');
    // Beside the lane, on the outside if there is enough space.
    const [first, last] = [note.lane === 0, note.lane === this.data.lanes.length - 1];
    const room = this.x(0) - 16 > words.length * 7;
    const right = room ? last : first;
    group.append(svg('rect', { x: x - 5, y: y(note.time) - 5, width: 10, height: 10, transform: `rotate(45 ${x} ${y(note.time)})` }));
    group.append(svg('text', { x: x + (right ? 12 : -12), y: y(note.time) + 4, 'text-anchor': right ? 'start' : 'end' }, words));
    group.append(svg('title', {}, noteInWords(this.data, note)));
    return group;
  }
}

/** Creates the legend of the kinds and fates that occur. @param {Arrow[]} arrows */
export function legendOf(arrows) {
  const list = document.createElement('ul');
  list.className = 'diagram-legend';
  const entry = (name, draw) => {
    const picture = svg('svg', { viewBox: '0 0 34 16', width: 34, height: 16, 'aria-hidden': 'true' });
    picture.append(draw);
    const item = document.createElement('li');
    item.append(picture, name);
    list.append(item);
  };
  const kinds = new Set(arrows.map((arrow) => arrow.kind));
  for (const kind of Object.keys(KINDS).filter((kind) => kinds.has(kind))) {
    const group = svg('g', { class: `arrow ${kind}` });
    group.append(svg('line', { x1: 1, y1: 8, x2: 27, y2: 8 }), svg('path', { class: 'tip', d: 'M33 8L25 5L25 11Z' }));
    entry(KINDS[kind], group);
  }
  const fates = new Set(arrows.map((arrow) => arrow.fate));
  if (fates.has('lost') || fates.has('queue-full')) {
    const group = svg('g', { class: 'arrow lost' });
    group.append(svg('path', { class: 'cross', d: 'M12 3l10 10m0-10l-10 10' }));
    entry('lost', group);
  }
  if (fates.has('suppressed')) {
    const group = svg('g', { class: 'arrow suppressed' });
    group.append(svg('circle', { class: 'stop', cx: 17, cy: 8, r: 6.5 }), svg('line', { class: 'stop', x1: 12.4, y1: 12.6, x2: 21.6, y2: 3.4 }));
    entry('duplicate ACK suppressed', group);
  }
  return list;
}
