// Steps, plays and zooms through the diagram.

import { Diagram, NARROW, WIDE, arrowInWords, firstFrom, legendOf, noteInWords, seconds, unpack } from './diagram.js';

/** What one can look for, in the order of the list. */
const SEARCHES = {
  'loss': ['a loss', (event) => event.ends && ['lost', 'queue-full'].includes(event.arrow.fate)],
  'local': ['a local retransmission', (event) => event.begins && event.arrow.kind === 'local-retransmission'],
  'suppressed': ['a suppressed duplicate ACK', (event) => event.ends && event.arrow.fate === 'suppressed'],
  'source': ['a retransmission by the source', (event) => event.begins && event.arrow.kind === 'source-retransmission'],
  'timeout': ['a timeout', (event) => event.note?.event === 'timeout'],
};
/** Wall-clock seconds that the diagram takes to run through what it shows, at speed 1. */
const SECONDS_A_VIEW = 6;
/** Without motion: so long for each step of the play. */
const STEP_MS = 900;
const LEAST_SPAN = 500;
const TABLE_ROWS = 200;

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

export class Player {
  /** @param {HTMLElement} element @param {(at: number, span: number) => void} moved called when the reader, not the play, has moved it */
  constructor(element, moved) {
    this.element = element;
    this.moved = moved;
    this.playing = false;
    const button = (id, text, label, act) => {
      const element = make('button', { type: 'button', id, textContent: text, title: label });
      element.setAttribute('aria-label', label);
      element.addEventListener('click', act);
      return element;
    };
    this.play = button('play', 'Play', 'Play', () => this.toggle());
    this.find = make('select', { id: 'find' }, ...Object.entries(SEARCHES).map(([value, [name]]) => make('option', { value, textContent: name })));
    this.find.setAttribute('aria-label', 'What to look for');
    this.speed = make('select', { id: 'speed' }, ...['0.1', '0.25', '0.5', '1', '2', '5'].map((value) => make('option', { value, textContent: `${value}×`, selected: value === '0.5' })));
    this.speed.setAttribute('aria-label', 'Speed');
    const tools = make('div', { className: 'tools' },
      button('first', '|◀', 'To the beginning', () => this.go(0)),
      button('back', '◀', 'One step back', () => this.step(-1)),
      this.play,
      button('forward', '▶', 'One step on', () => this.step(1)),
      this.speed,
      button('out', '−', 'Show more time', () => this.zoom(2)),
      button('in', '+', 'Show less time', () => this.zoom(0.5)),
      make('span', { className: 'search' }, button('seek', 'Next', 'Go on to the next', () => this.search()), this.find));
    tools.setAttribute('role', 'group');
    tools.setAttribute('aria-label', 'Diagram');
    this.position = make('input', { type: 'range', id: 'position', min: '0', step: 'any', value: '0' });
    this.position.setAttribute('aria-label', 'Moment');
    this.position.addEventListener('input', () => this.go(Number(this.position.value)));
    this.words = make('p', { className: 'words', id: 'words' });
    this.words.setAttribute('aria-live', 'polite');
    this.stage = make('div', { className: 'stage', tabIndex: 0, id: 'stage' });
    this.stage.setAttribute('role', 'group');
    this.stage.setAttribute('aria-label', 'Time-sequence diagram; arrow keys step, space plays, plus and minus zoom');
    this.stage.addEventListener('keydown', (event) => this.key(event));
    this.legend = make('div');
    this.rows = make('tbody');
    const head = make('thead', {}, make('tr', {}, ...['sent', 'ended', 'packet'].map((text) => make('th', { scope: 'col', textContent: text }))));
    this.count = make('caption');
    const scroll = make('div', { className: 'scroll', tabIndex: 0 }, make('table', {}, this.count, head, this.rows));
    scroll.setAttribute('role', 'region');
    scroll.setAttribute('aria-label', 'Packets of the diagram');
    this.table = make('details', { className: 'chart-numbers' }, make('summary', { textContent: 'Packets as a table' }), scroll);
    this.table.addEventListener('toggle', () => this.list());
    element.replaceChildren(tools, this.position, this.words, this.legend, this.stage, this.table);
    new ResizeObserver(() => {
      if (this.diagram && this.diagram.width !== this.width()) { this.draft(); this.draw(); }
    }).observe(this.stage);
  }

  /** On a phone the nodes stand closer together, so that the writing stays readable. */
  width() { return this.stage.clientWidth < 520 ? NARROW : WIDE; }

  draft() {
    this.diagram = new Diagram(this.data, this.width());
    this.stage.replaceChildren(this.diagram.element);
  }

  /** Shows another run; at its first event of interest unless `at` says otherwise. @param {object} packed @param {number|undefined} at @param {number|undefined} span */
  show(packed, at, span) {
    this.pause();
    const data = unpack(packed);
    this.data = data;
    this.draft();
    const events = [
      ...data.arrows.map((arrow) => ({ time: arrow.sent, begins: true, arrow })),
      ...data.arrows.filter((arrow) => arrow.fate !== 'underway').map((arrow) => ({ time: arrow.ended, ends: true, arrow })),
      ...data.notes.map((note) => ({ time: note.time, note })),
    ];
    /** @type {{time: number, begins?: boolean, ends?: boolean, arrow?: import('./diagram.js').Arrow, note?: import('./diagram.js').Note}[]} */
    this.events = events.sort((a, b) => a.time - b.time);
    /** The moments at which something happens, each once. */
    this.moments = [...new Set(this.events.map((event) => event.time))];
    this.position.max = String(data.end);
    this.legend.replaceChildren(legendOf(data));
    const first = ['suppressed', 'local', 'source', 'loss'].map((what) => this.events.find(SEARCHES[what][1])?.time).find((time) => time !== undefined);
    this.at = Math.min(at ?? first ?? 0, data.end);
    this.span = span ?? this.usualSpan();
    this.draw();
  }

  /** Time in which some two dozen packets pass. */
  usualSpan() {
    const index = firstFrom(this.data.arrows, (arrow) => arrow.sent, this.at);
    const [from, to] = [this.data.arrows[Math.max(0, index - 11)], this.data.arrows[Math.min(this.data.arrows.length - 1, index + 11)]];
    return Math.max(LEAST_SPAN, from && to ? to.sent - from.sent : 1e5);
  }

  draw() {
    this.diagram.draw(this.at, this.span);
    this.position.value = String(this.at);
    this.position.setAttribute('aria-valuetext', seconds(this.at));
    this.say();
    if (!this.playing) this.list();
  }

  /** What happens at this very moment, in words. */
  say() {
    const from = firstFrom(this.events, (event) => event.time, this.at);
    const now = this.events.slice(from, firstFrom(this.events, (event) => event.time, this.at + 0.5));
    const said = now.map((event) => {
      if (event.note) return noteInWords(this.data, event.note);
      const words = arrowInWords(this.data, event.arrow);
      return event.begins ? `sent: ${words.slice(0, words.lastIndexOf(','))}` : words;
    });
    this.words.textContent = `${seconds(this.at)}${said.length ? `: ${said.slice(0, 4).join('; ')}` : ''}${said.length > 4 ? `; and ${said.length - 4} more` : ''}`;
  }

  list() {
    if (!this.table.open) return;
    const { arrows } = this.diagram.visible(this.at, this.span);
    const shown = arrows.slice(-TABLE_ROWS);
    this.count.textContent = shown.length < arrows.length ? `The last ${TABLE_ROWS} of ${arrows.length} packets in view` : `${arrows.length} packets in view`;
    this.rows.replaceChildren(...shown.map((arrow) => make('tr', {},
      make('th', { scope: 'row', textContent: seconds(arrow.sent) }), make('td', { textContent: seconds(arrow.ended) }),
      make('td', { className: 'text', textContent: arrowInWords(this.data, arrow) }))));
  }

  /** Goes to a moment. @param {number} at */
  go(at) {
    if (!this.data) return;
    this.pause();
    this.at = Math.max(0, Math.min(at, this.data.end));
    this.draw();
    this.moved(this.at, this.span);
  }

  /** To the next moment at which something happens, or the one before. @param {1|-1} direction */
  step(direction) {
    if (!this.data) return;
    const next = firstFrom(this.moments, (time) => time, this.at + (direction > 0 ? 0.5 : -0.5));
    const moment = this.moments[direction > 0 ? next : next - 1];
    if (moment !== undefined) this.go(moment);
  }

  search() {
    if (!this.data) return;
    const [name, fits] = SEARCHES[this.find.value];
    const found = this.events.slice(firstFrom(this.events, (event) => event.time, this.at + 0.5)).find(fits);
    if (found) this.go(found.time);
    else this.words.textContent = `After ${seconds(this.at)} there is not ${name} any more.`;
  }

  /** @param {number} factor */
  zoom(factor) {
    if (!this.data) return;
    this.span = Math.max(LEAST_SPAN, Math.min(this.span * factor, Math.max(this.data.end, LEAST_SPAN)));
    this.draw();
    this.moved(this.at, this.span);
  }

  toggle() {
    if (this.playing) { this.pause(); this.moved(this.at, this.span); return; }
    if (!this.data) return;
    if (this.at >= this.data.end) this.at = 0;
    this.playing = true;
    this.play.textContent = 'Pause';
    this.play.setAttribute('aria-label', 'Pause');
    // Nobody can listen to packets as they fly.
    this.words.setAttribute('aria-live', 'off');
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    let last = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      const speed = Number(this.speed.value);
      if (still) {
        if (now - last >= STEP_MS / speed / 2) { last = now; this.advance(this.moments[firstFrom(this.moments, (time) => time, this.at + 0.5)] ?? this.data.end); }
      } else {
        this.advance(this.at + ((now - last) / 1000 / SECONDS_A_VIEW) * speed * this.span);
        last = now;
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** @param {number} at */
  advance(at) {
    this.at = Math.min(at, this.data.end);
    if (this.at >= this.data.end) this.pause();
    this.draw();
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.play.textContent = 'Play';
    this.play.setAttribute('aria-label', 'Play');
    this.words.setAttribute('aria-live', 'polite');
    this.list();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.target !== this.stage || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      'ArrowRight': () => this.step(1), 'ArrowDown': () => this.step(1), 'ArrowLeft': () => this.step(-1), 'ArrowUp': () => this.step(-1),
      ' ': () => this.toggle(), '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), 'Home': () => this.go(0), 'End': () => this.go(this.data?.end ?? 0),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  }
}
