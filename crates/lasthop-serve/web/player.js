// Steps, plays and zooms the diagram of a run, or of two runs side by side at the same time.

import { Diagram, NARROW, WIDE, arrowInWords, firstFrom, legendOf, noteInWords, seconds, unpack } from './diagram.js';
import { make } from './dom.js';

/**
 * @typedef {{time: number, begins?: boolean, ends?: boolean, arrow?: import('./diagram.js').Arrow, note?: import('./diagram.js').Note}} Event
 * @typedef {{scheme: string, data: import('./diagram.js').Data, diagram: Diagram, events: Event[]}} Run
 */

/** Events to search for, in the order of the list. */
const SEARCHES = {
  'loss': ['a loss', (event) => event.ends && ['lost', 'queue-full'].includes(event.arrow.fate)],
  'local': ['a local retransmission', (event) => event.begins && event.arrow.kind === 'local-retransmission'],
  'suppressed': ['a suppressed duplicate ACK', (event) => event.ends && event.arrow.fate === 'suppressed'],
  'source': ['a retransmission by the source', (event) => event.begins && event.arrow.kind === 'source-retransmission'],
  'timeout': ['a timeout', (event) => event.note?.event === 'timeout'],
};
/** Wall-clock seconds in which the diagram plays through its span at speed 1. */
const SECONDS_A_VIEW = 6;
/** Time for each step when playing without motion. */
const STEP_MS = 900;
const LEAST_SPAN = 500;
const TABLE_ROWS = 200;

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
    this.find.setAttribute('aria-label', 'Event to find');
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
      make('span', { className: 'search' }, button('seek', 'Next', 'Go to the next', () => this.search()), this.find));
    tools.setAttribute('role', 'group');
    tools.setAttribute('aria-label', 'Diagram');
    this.position = make('input', { type: 'range', id: 'position', min: '0', step: 'any', value: '0' });
    this.position.setAttribute('aria-label', 'Moment');
    this.position.addEventListener('input', () => this.go(Number(this.position.value)));
    this.places = ['', '-beside'].map((suffix) => this.place(suffix));
    this.legend = make('div');
    this.rows = make('tbody');
    const head = make('thead', {}, make('tr', {}, ...['sent', 'ended', 'packet'].map((textContent) => make('th', { scope: 'col', textContent }))));
    this.count = make('caption');
    const scroll = make('div', { className: 'scroll', tabIndex: 0 }, make('table', {}, this.count, head, this.rows));
    scroll.setAttribute('role', 'region');
    scroll.setAttribute('aria-label', 'Packets of the diagram');
    this.table = make('details', { className: 'chart-numbers' }, make('summary', { textContent: 'Packets as a table' }), scroll);
    this.table.addEventListener('toggle', () => this.list());
    element.replaceChildren(tools, this.position, this.legend, make('div', { className: 'stages' }, ...this.places.map((place) => place.element)), this.table);
    /** @type {Run[]} */
    this.runs = [];
    new ResizeObserver(() => {
      if (this.runs.length && this.runs[0].diagram.width !== this.width()) { this.draft(); this.draw(); }
    }).observe(this.places[0].stage);
  }

  /** Creates the place where a run is drawn. @param {string} suffix */
  place(suffix) {
    const scheme = make('p', { className: 'stage-scheme' });
    const words = make('p', { className: 'words', id: `words${suffix}` });
    words.setAttribute('aria-live', 'polite');
    const stage = make('div', { className: 'stage', tabIndex: 0, id: `stage${suffix}` });
    stage.setAttribute('role', 'group');
    stage.addEventListener('keydown', (event) => this.key(event));
    return { element: make('div', { hidden: suffix !== '' }, scheme, words, stage), scheme, words, stage };
  }

  /** Returns the width: on small screens the nodes are closer together, so that text stays readable. */
  width() { return this.places[0].stage.clientWidth < 520 ? NARROW : WIDE; }

  draft() {
    const [upper, lower] = this.places.map(({ element }) => element.offsetTop);
    const stacked = this.runs.length > 1 && lower > upper;
    this.runs.forEach((run, index) => {
      run.diagram = new Diagram(run.data, this.width(), { low: stacked });
      this.places[index].stage.replaceChildren(run.diagram.element);
    });
  }

  /** Shows other runs: at their first event of interest unless `at` is given, or at the first one that `find` names.
   * @param {{scheme: string, diagram: object}[]} shown @param {number|undefined} at @param {number|undefined} span @param {string|undefined} find */
  show(shown, at, span, find) {
    this.pause();
    this.runs = shown.map(({ scheme, diagram }) => {
      const data = unpack(diagram);
      const events = [
        ...data.arrows.map((arrow) => ({ time: arrow.sent, begins: true, arrow })),
        ...data.arrows.filter((arrow) => arrow.fate !== 'underway').map((arrow) => ({ time: arrow.ended, ends: true, arrow })),
        ...data.notes.map((note) => ({ time: note.time, note })),
      ];
      return { scheme, data, diagram: null, events: events.sort((a, b) => a.time - b.time) };
    });
    this.places.forEach(({ element, scheme, stage }, index) => {
      const run = this.runs[index];
      element.hidden = !run;
      if (!run) return;
      scheme.textContent = run.scheme;
      scheme.hidden = this.runs.length < 2;
      stage.setAttribute('aria-label', `Time-sequence diagram of ${run.scheme}; arrow keys step, space plays, plus and minus zoom`);
    });
    this.draft();
    /** Times at which something happens, without duplicates. */
    this.moments = [...new Set(this.runs.flatMap((run) => run.events.map((event) => event.time)))].sort((a, b) => a - b);
    this.end = Math.max(...this.runs.map((run) => run.data.end));
    this.position.max = String(this.end);
    this.legend.replaceChildren(legendOf(this.runs.flatMap((run) => run.data.arrows)));
    const first = (what) => SEARCHES[what] && this.next(SEARCHES[what][1], -1)?.time;
    const start = first(find) ?? ['suppressed', 'local', 'source', 'loss'].map(first).find((time) => time !== undefined);
    this.at = Math.min(at ?? start ?? 0, this.end);
    this.span = span ?? this.usualSpan();
    if (SEARCHES[find]) this.find.value = find;
    if (at === undefined) this.reach();
    this.draw();
  }

  /** Returns the first event after `after` that fits, in any of the runs. @param {(event: Event) => boolean} fits @param {number} after @returns {Event|undefined} */
  next(fits, after) {
    const found = this.runs.map((run) => run.events.slice(firstFrom(run.events, (event) => event.time, after)).find(fits)).filter(Boolean);
    return found.sort((a, b) => a.time - b.time)[0];
  }

  /** Returns the time in which about two dozen packets pass. */
  usualSpan() {
    const { arrows } = this.runs[0].data;
    const index = firstFrom(arrows, (arrow) => arrow.sent, this.at);
    const [from, to] = [arrows[Math.max(0, index - 11)], arrows[Math.min(arrows.length - 1, index + 11)]];
    return Math.max(LEAST_SPAN, from && to ? to.sent - from.sent : 1e5);
  }

  /** Extends the span until the last packets before the current time are visible: before a timeout there is a long silence. */
  reach() {
    for (const { data, diagram } of this.runs) {
      const before = firstFrom(data.arrows, (arrow) => arrow.sent, this.at - 0.5);
      // Packets in flight at the current time are visible anyway.
      if (before === 0 || diagram.visible(this.at - 0.5, this.span).arrows.length) continue;
      const last = data.arrows.slice(Math.max(0, before - 100), before).reduce((last, arrow) => Math.max(last, arrow.ended), 0);
      this.span = Math.max(this.span, (this.at - last) * 1.25);
    }
  }

  draw() {
    for (const { diagram } of this.runs) diagram.draw(this.at, this.span);
    this.position.value = String(this.at);
    this.position.setAttribute('aria-valuetext', seconds(this.at));
    this.say();
    if (!this.playing) this.list();
  }

  /** Describes the events at the current time. */
  say() {
    this.runs.forEach(({ events, data }, index) => {
      const from = firstFrom(events, (event) => event.time, this.at);
      const now = events.slice(from, firstFrom(events, (event) => event.time, this.at + 0.5));
      const said = now.map((event) => {
        if (event.note) return noteInWords(data, event.note);
        const words = arrowInWords(data, event.arrow);
        return event.begins ? `sent: ${words.slice(0, words.lastIndexOf(','))}` : words;
      });
      this.places[index].words.textContent = `${seconds(this.at)}${said.length ? `: ${said.slice(0, 4).join('; ')}` : ''}${said.length > 4 ? `; and ${said.length - 4} more` : ''}`;
    });
  }

  list() {
    if (!this.table.open) return;
    const arrows = this.runs.flatMap(({ scheme, data, diagram }) => diagram.visible(this.at, this.span).arrows.map((arrow) => ({ scheme, data, arrow })));
    arrows.sort((a, b) => a.arrow.sent - b.arrow.sent);
    const shown = arrows.slice(-TABLE_ROWS);
    this.count.textContent = shown.length < arrows.length ? `The last ${TABLE_ROWS} of ${arrows.length} packets in view` : `${arrows.length} packets in view`;
    const two = this.runs.length > 1;
    this.rows.replaceChildren(...shown.map(({ scheme, data, arrow }) => make('tr', {},
      make('th', { scope: 'row', textContent: seconds(arrow.sent) }), make('td', { textContent: seconds(arrow.ended) }),
      make('td', { className: 'text', textContent: `${two ? `${scheme}: ` : ''}${arrowInWords(data, arrow)}` }))));
  }

  /** Goes to a point in time. @param {number} at */
  go(at) {
    if (!this.runs.length) return;
    this.pause();
    this.at = Math.max(0, Math.min(at, this.end));
    this.draw();
    this.moved(this.at, this.span);
  }

  /** Goes to the next or previous time at which something happens. @param {1|-1} direction */
  step(direction) {
    if (!this.runs.length) return;
    const next = firstFrom(this.moments, (time) => time, this.at + (direction > 0 ? 0.5 : -0.5));
    const moment = this.moments[direction > 0 ? next : next - 1];
    if (moment !== undefined) this.go(moment);
  }

  search() {
    if (!this.runs.length) return;
    const [name, fits] = SEARCHES[this.find.value];
    const found = this.next(fits, this.at + 0.5);
    if (!found) {
      this.places[0].words.textContent = `After ${seconds(this.at)} there is no further event of this kind: ${name}.`;
      return;
    }
    this.pause();
    this.at = found.time;
    this.reach();
    this.go(found.time);
  }

  /** @param {number} factor */
  zoom(factor) {
    if (!this.runs.length) return;
    this.span = Math.max(LEAST_SPAN, Math.min(this.span * factor, Math.max(this.end, LEAST_SPAN)));
    this.draw();
    this.moved(this.at, this.span);
  }

  toggle() {
    if (this.playing) { this.pause(); this.moved(this.at, this.span); return; }
    if (!this.runs.length) return;
    if (this.at >= this.end) this.at = 0;
    this.playing = true;
    this.play.textContent = 'Pause';
    this.play.setAttribute('aria-label', 'Pause');
    // Screen readers must not announce every packet while playing.
    this.live('off');
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    let last = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      const speed = Number(this.speed.value);
      if (still) {
        if (now - last >= STEP_MS / speed / 2) { last = now; this.advance(this.moments[firstFrom(this.moments, (time) => time, this.at + 0.5)] ?? this.end); }
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
    this.at = Math.min(at, this.end);
    if (this.at >= this.end) this.pause();
    this.draw();
  }

  /** @param {'polite'|'off'} how */
  live(how) { for (const { words } of this.places) words.setAttribute('aria-live', how); }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.play.textContent = 'Play';
    this.play.setAttribute('aria-label', 'Play');
    this.live('polite');
    this.list();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.places.some(({ stage }) => stage === event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      'ArrowRight': () => this.step(1), 'ArrowDown': () => this.step(1), 'ArrowLeft': () => this.step(-1), 'ArrowUp': () => this.step(-1),
      ' ': () => this.toggle(), '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), 'Home': () => this.go(0), 'End': () => this.go(this.end ?? 0),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  }
}
