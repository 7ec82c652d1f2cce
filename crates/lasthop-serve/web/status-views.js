// Views of daemons: facts, tables of paths and rules, and charts of the last minutes.

import { drawFigure } from './charts.js';
import { make, row, scrolled, table } from './dom.js';

/** Number of parts with charts up to which all charts are open at first. */
const OPEN = 4;

const digits = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2));
const scaled = (value, units) => {
  const [unit, size] = units.find(([, size]) => value >= size) ?? units.at(-1);
  return `${digits(value / size)} ${unit}`;
};
const rate = (bits) => (bits == null ? '–' : scaled(bits, [['Gbit/s', 1e9], ['Mbit/s', 1e6], ['kbit/s', 1e3]]));
const bytes = (count) => (count < 1024 ? `${count} B` : scaled(count, [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 1024]]));
const milliseconds = (seconds) => (seconds == null ? '–' : `${digits(seconds * 1e3)} ms`);
const percent = (share) => (share == null || !Number.isFinite(share) ? '–' : `${(100 * share).toFixed(1)} %`);
const count = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;

/** Formats a duration in its two largest units. @param {number} seconds */
export function span(seconds) {
  const whole = Math.floor(seconds);
  const parts = [[Math.floor(whole / 86400), 'd'], [Math.floor(whole / 3600) % 24, 'h'], [Math.floor(whole / 60) % 60, 'min'], [whole % 60, 's']];
  const first = Math.max(0, parts.findIndex(([number]) => number > 0));
  const from = parts.some(([number]) => number > 0) ? first : parts.length - 1;
  return parts.slice(from, from + 2).filter(([number], at) => !at || number > 0).map(([number, unit]) => `${number} ${unit}`).join(' ');
}

const ago = (seconds) => (seconds == null ? 'never' : `${span(seconds)} ago`);

/** Kinds of states: those that call for attention, and those in which traffic is carried. */
const BAD = ['breaker', 'congested', 'down', 'no session', 'no answer', 'no worker', 'not treated'];
const GOOD = ['silent', 'repairing', 'running', 'treats'];

/** Meaning of the states of peers and paths. */
const STATES = [
  ['silent', 'no losses'], ['repairing', 'losses are repaired'],
  ['congested', 'the hop is full: no coding, at most one retransmission per packet'],
  ['breaker', 'over 30 % loss for 10 s without queueing: repair is suspended'],
  ['idle', 'nothing from the peer for 15 s, and nothing outstanding'], ['standby', 'another path carries all packets'],
  ['untried', 'the delay of the path is unknown'], ['down', 'nothing is answered on the path'],
  ['off', 'switched off by its tier, or its data volume'], ['unused', 'the other end has no such path'],
];

const badge = (state) => make('span', { className: `state ${BAD.includes(state) ? 'bad' : GOOD.includes(state) ? 'good' : ''}`, textContent: state });
const cell = (...children) => make('td', { className: 'words' }, ...children);

/** A part of a daemon: heading, facts, a table, and charts of the last minutes. */
class Part {
  /** @param {string} title @param {string[]} heads of the table @param {boolean} open whether the charts are open */
  constructor(title, heads, open) {
    this.title = title;
    this.heads = heads;
    this.state = make('span');
    this.facts = make('p', { className: 'facts' });
    this.table = make('table', {}, make('caption', { className: 'hidden', textContent: title }), make('thead'), make('tbody'));
    this.plots = make('div', { className: 'plots' });
    this.history = make('details', { open }, make('summary', { textContent: 'Last 10 minutes' }), this.plots);
    this.history.addEventListener('toggle', () => this.draw());
    this.element = make('section', { className: 'part' }, make('h3', {}, `${title} `, this.state), this.facts, scrolled(this.table, `Table: ${title}`), this.history);
    /** @type {Map<string, {update: (figure: object) => void}>} */
    this.charts = new Map();
    /** @type {[string, object][]} */
    this.figures = [];
  }

  /** @param {string} state @param {string[]} facts @param {HTMLElement[]} rows @param {[string, object][]} figures */
  show(state, facts, rows, figures) {
    this.state.replaceChildren(badge(state));
    this.facts.textContent = facts.filter(Boolean).join(' · ');
    table(this.table, this.heads, rows);
    this.figures = figures;
    this.history.hidden = !figures.length;
    this.draw();
  }

  /** Draws the charts, if they are visible. */
  draw() {
    if (!this.history.open || !this.element.isConnected) return;
    const names = this.figures.map(([name]) => name);
    if ([...this.charts.keys()].join() !== names.join()) {
      this.charts.clear();
      const places = this.figures.map(() => make('div'));
      this.plots.replaceChildren(...places);
      this.figures.forEach(([name, figure], at) => this.charts.set(name, drawFigure(places[at], figure, { height: 150, label: `${this.title}: ${figure.title}` })));
      return;
    }
    for (const [name, figure] of this.figures) this.charts.get(name)?.update(figure);
  }
}

const PATHS = ['path', 'state', 'address', 'rate', 'sends now', 'round trip', 'loss', 'repair', 'share', 'last contact', 'tier', 'this month'];
const RULES = ['rule', 'mode', 'interface', 'connections', 'lost on the hop', 'retransmitted', 'lost before it', 'round trip, hop', 'round trip, wired', 'gain'];

/** State of a peer in a word. */
const stateOf = (peer) => (!peer.up ? 'no session' : peer.unanswered ? 'no answer' : peer.state);

/** Data volume of a path with a cap in the current month. */
const month = (path) => (path.cap_bytes == null ? '–' : `${digits(path.month_bytes / 1e9)} of ${digits(path.cap_bytes / 1e9)} GB`);

/** Rows of a peer's paths. */
function pathRows(peer, history) {
  const total = peer.paths.reduce((sum, path) => sum + path.frames.bytes, 0);
  return peer.paths.map((path) => row([
    path.name || peer.name, cell(badge(path.state)), cell(path.address ?? '–'), rate(path.rate) + (path.finds_rate ? ' found' : ''),
    rate(history.latest(peer.name, 'paths', path.name || peer.name)), milliseconds(path.rtt_seconds), percent(path.loss),
    percent(path.frames.bytes ? path.repair.bytes / path.frames.bytes : null), percent(total ? path.frames.bytes / total : null), ago(path.heard_seconds),
    cell(path.tier ?? '–'), cell(month(path)),
  ]));
}

const peerFacts = (peer) => [
  peer.up_seconds == null ? '' : `session for ${span(peer.up_seconds)}`, `last contact ${ago(peer.heard_seconds)}`, `MTU ${peer.mtu}`,
  `to it ${bytes(peer.sent.bytes)}`, `from it ${bytes(peer.received.bytes)}`, `${peer.waiting} queued`,
  `${peer.resent} retransmitted, ${peer.redundant} sent ahead of losses, ${peer.given_up} abandoned`,
  `${peer.restored} recovered by coding`, peer.dropped ? `${peer.dropped} dropped by the queue` : '',
];

function ruleRow(rule) {
  const number = (value) => (value == null ? '–' : String(value));
  const repairs = rule.repairs_timer == null ? null : rule.repairs_duplicate + rule.repairs_hole + rule.repairs_timer;
  const gain = rule.gain ? `${digits(rule.gain.ratio)} (${digits(rule.gain.low)}–${digits(rule.gain.high)})` : '–';
  return row([
    rule.name, cell(rule.mode), cell(rule.interface), number(rule.flows_active), number(rule.wireless_losses), number(repairs),
    number(rule.wired_losses), milliseconds(rule.rtt_wireless?.mean_seconds), milliseconds(rule.rtt_wired?.mean_seconds), gain,
  ]);
}

const gatewayFacts = ({ flows, limits, cached_bytes: cached, packets }) => [
  `${count(flows, 'connection')} of at most ${limits.flows}`, `${bytes(cached)} cached of at most ${bytes(limits.cache_bytes)}`,
  `towards the hop ${bytes(packets.towards_wireless_bytes)}`, `from the hop ${bytes(packets.from_wireless_bytes)}`,
  `${packets.injected_wireless + packets.injected_wired} packets sent by the gateway itself`,
];

/** View of a daemon, in place: open charts stay open, and the focus stays where it is. */
export class DaemonView {
  /** @param {{kind: string, place: string}} daemon @param {(text: string) => void} announce */
  constructor({ kind, place }, announce) {
    this.kind = kind;
    this.announce = announce;
    this.name = `${kind[0].toUpperCase()}${kind.slice(1)}`;
    this.title = make('span', { textContent: this.name });
    this.state = make('span');
    this.gone = make('p', { className: 'gone' });
    this.facts = make('p', { className: 'facts' });
    this.remarks = make('ul', { className: 'remarks' });
    this.current = make('div', { className: 'current' });
    this.element = make('section', { className: 'daemon' }, make('h2', {}, this.title, ' ', this.state, ' ', make('small', { textContent: place })), this.gone, this.facts, this.current);
    this.element.setAttribute('aria-label', `${this.name} at ${place}`);
    this.element.dataset.kind = kind;
    this.parts = new Map();
    /** States that were announced, by name. @type {Map<string, string>} */
    this.known = new Map();
  }

  /** @param {object} daemon @param {import('./status-history.js').History} history @param {number} now @param {number} seconds */
  show({ problem, age_seconds: age, status, remarks }, history, now, seconds) {
    const state = problem ? 'no answer' : status.worker.pid == null ? 'no worker' : 'running';
    this.state.replaceChildren(badge(state));
    this.tell(this.name, state);
    const last = age == null ? '' : ` The values below are from ${ago(age)}.`;
    this.gone.textContent = problem ? `${problem}.${last} This page keeps asking.` : '';
    this.element.classList.toggle('stale', Boolean(problem));
    this.current.hidden = !status;
    if (!status) return;
    this.facts.textContent = [`lasthop ${status.version}`, `up for ${span(status.uptime_seconds)}`, `worker replaced ${count(status.worker.restarts, 'time')}`, `${count(status.reloads, 'reload')}`].join(' · ');
    this.remarks.replaceChildren(...remarks.map((textContent) => make('li', { textContent })));
    const figures = (group) => history.figures(group, now, seconds);
    if (this.kind === 'tunnel') this.showTunnel(status, history, figures); else this.showGateway(status, figures);
  }

  /** Announces a change between good and bad. @param {string} name @param {string} state */
  tell(name, state) {
    const [before, now] = [this.known.get(name), BAD.includes(state) ? 'bad' : 'good'];
    this.known.set(name, now);
    if (before && before !== now) this.announce(`${name}: ${state}`);
  }

  showTunnel(status, history, figures) {
    this.title.textContent = `Tunnel ${status.device}`;
    this.keep(status.peers.map(({ name }) => name), (name) => new Part(name, PATHS, status.peers.length <= OPEN));
    for (const peer of status.peers) {
      this.parts.get(peer.name).show(stateOf(peer), peerFacts(peer), pathRows(peer, history), figures(peer.name));
      this.tell(peer.name, stateOf(peer));
      for (const path of peer.paths) if (path.name) this.tell(`${peer.name}, path ${path.name}`, path.state);
    }
  }

  showGateway(status, figures) {
    this.keep(['Connections'], (name) => new Part(name, RULES, true));
    const state = status.untreated.length ? 'not treated' : 'treats';
    this.parts.get('Connections').show(state, gatewayFacts(status), status.rules.map(ruleRow), figures(''));
    this.tell(`${this.name}, connections`, state);
  }

  /** Keeps one part for each name, in order. @param {string[]} names @param {(name: string) => Part} create */
  keep(names, create) {
    if (this.current.childElementCount && [...this.parts.keys()].join('\n') === names.join('\n')) return;
    this.parts = new Map(names.map((name) => [name, this.parts.get(name) ?? create(name)]));
    const meaning = make('details', { className: 'explain' }, make('summary', { textContent: 'Meaning of the states' }), make('dl', {}, ...STATES.flatMap(([state, words]) => [make('dt', { textContent: state }), make('dd', { textContent: words })])));
    this.current.replaceChildren(this.remarks, ...[...this.parts.values()].map((part) => part.element), ...(this.kind === 'tunnel' ? [meaning] : []));
  }
}
