// Throughput of the schemes: bars with intervals, and a table of other metrics. All schemes are shown with equal
// numbers of runs; old numbers are marked while new ones are computed.

import { drawFigure } from './charts.js';
import { make } from './dom.js';

/**
 * @typedef {{unit: string, mean: number, ci95: number|null, runs: number}} Estimate
 * @typedef {{scheme: string, runs: number, measures: Record<string, Estimate>}} SoFar
 * @typedef {{scheme: string, same_as: string|null, recovery_of: string|null, set_by: string|null}} Remark
 */

/** Columns of the table: metric, heading, meaning, and whether it is shown even if all values are 0. */
const COLUMNS = [
  ['rtt_p50', 'rtt p50 ms', 'Median round trip as measured by the sender, including queueing.', false],
  ['rtt_p95', 'rtt p95 ms', '95th percentile of the round trip.', false],
  ['one_way_delay_p95', 'one-way p95 ms', '95th percentile of the time from sending to arrival.', false],
  ['queue_drops', 'queue drops', 'Packets dropped by the queues of all links in both directions, including those in hosts.', false],
  ['timeouts', 'timeouts', 'Expirations of the sender\'s retransmission timer, after which it restarts from one segment.', true],
  ['relay_timeouts', 'relay timeouts', 'The same at the base station of a split connection, which is the sender on the wireless link.', false],
  ['source_retransmissions', 'source rtx', 'Data segments retransmitted by the sender, over the whole path.', true],
  ['local_retransmissions', 'local rtx', 'Data segments retransmitted by the base station, over the lossy link only.', true],
  ['dupacks_suppressed', 'dupacks suppressed', 'Duplicate acknowledgments suppressed by the base station, since it repairs the loss.', true],
  ['marks', 'marks', 'Packets marked by a queue instead of dropped, so that the sender slows down without a loss (ECN).', false],
  ['incomplete', 'unfinished', 'Transfers, over all runs, that were incomplete at the scenario\'s time limit.', false],
];
/** Colours of the groups, in the order of the charts' colours: families for the studies, and for schemes between modern endpoints the place of the cure. */
const GROUPS = {
  'end-to-end': 0, 'link-layer': 2, 'split-connection': 1, 'multiple-layers': 3,
  'modern endpoints': 0, 'modern endpoints, gateway': 2, 'modern endpoints, a device at each end of the link': 1,
};
const PLACES = { plain: 'modern endpoints', sender: 'modern endpoints', gateway: 'modern endpoints, gateway', 'both-ends': 'modern endpoints, a device at each end of the link' };
/** Descriptions of the cures for the finding. */
const CURES = { SNOOP: 'a gateway that repairs losses', 'SPLIT-BBR': 'a gateway that splits the connection' };
/** Time after which incomplete new numbers replace old ones. */
const PATIENCE_MS = 900;

export class Results {
  /**
   * @param {{bars: HTMLElement, table: HTMLTableElement, remarks: HTMLElement, columns: HTMLElement, finding: HTMLElement}} parts
   * @param {(scheme: string) => void} choose @param {() => void} drawn called whenever what is shown has changed
   */
  constructor(parts, choose, drawn) {
    this.parts = parts;
    this.drawn = drawn;
    this.due = false;
    this.body = parts.table.tBodies[0];
    this.choose = choose;
    this.chart = null;
    /** @type {string[]} */
    this.schemes = [];
    /** @type {Remark[]} */
    this.remarks = [];
    /** Displayed results, and the number of runs of each. @type {Map<string, SoFar>} */
    this.shownNow = new Map();
    this.runs = 0;
    /** True if the displayed results belong to the last request. */
    this.fresh = false;
    /** Rounds that have begun, by their number of runs. @type {Map<number, Map<string, SoFar>>} */
    this.rounds = new Map();
    /** @type {{scheme: string, throughput: number}|null} */
    this.without = null;
    /** Group of each scheme, which determines the colour of its bar, and its short description. @type {Map<string, {group: string, place: string|null, brief: string|null}>} */
    this.known = new Map();
    this.state = { flows: 1, limit: '' };
    this.shown = [];
    /** Rows are reused, so that the keyboard focus is kept. @type {Map<string, HTMLTableRowElement>} */
    this.rows = new Map();
    parts.table.tHead.rows[0].append(...['Scheme', 'Mbps', ...COLUMNS.map(([, heading]) => heading), 'runs'].map((textContent, index) => {
      const head = make('th', { scope: 'col', textContent });
      if (index > 1) head.title = COLUMNS[index - 2]?.[2] ?? '';
      return head;
    }));
    const terms = [['Mbps', 'Megabits of data delivered per second, without duplicates; ± is the 95 % interval of the mean over the runs.'], ...COLUMNS.map(([, heading, words]) => [heading, words]), ['runs', 'Number of runs. Each has its own losses, which are the same for every scheme.']];
    parts.columns.append(...terms.flatMap(([term, words]) => [make('dt', { textContent: term }), make('dd', { textContent: words })]));
  }

  /** Takes the catalogue's information on the schemes. @param {{name: string, family: string, place: string|null, brief: string|null}[]} schemes */
  know(schemes) {
    this.known = new Map(schemes.map(({ name, family, place, brief }) => [name, { group: PLACES[place] ?? family, place, brief }]));
  }

  /** Returns the colour of a scheme, in the bars and in the plots of its packets. @param {string} name */
  colourOf(name) { return GROUPS[this.known.get(name)?.group] ?? 0; }

  /** Returns the finding: the throughput of Linux without a cure, and with the best gateway. Only if both are compared. @returns {string} */
  finding() {
    const mbps = (name) => this.shownNow.get(name)?.measures.throughput;
    const there = this.schemes.filter((name) => mbps(name) && !this.remark(name));
    const plain = there.find((name) => this.known.get(name)?.place === 'plain');
    const cures = there.filter((name) => ['gateway', 'both-ends'].includes(this.known.get(name)?.place));
    if (!plain || !cures.length || !this.complete) return '';
    const best = cures.reduce((one, other) => (mbps(other).mean > mbps(one).mean ? other : one));
    const text = ({ mean }) => `${mean >= 1 ? mean.toFixed(1) : mean.toPrecision(2)} Mbps`;
    const cure = CURES[best] ?? 'a device at each end of the link';
    const [without, gained] = [mbps(plain), mbps(best)];
    const words = `${this.state.title}: Linux by default ${text(without)}, with ${cure} ${text(gained)}`;
    const apart = Math.abs(gained.mean - without.mean) > (gained.ci95 ?? 0) + (without.ci95 ?? 0);
    if (!apart) return `${words}: no clear difference.`;
    return gained.mean < without.mean ? `${words}: it is slower here.` : `${words}.`;
  }

  /** Notes that a request was sent: current numbers are old until answers arrive. */
  expect() {
    this.fresh = false;
    this.partial = false;
    this.impatient = false;
    this.rounds.clear();
    clearTimeout(this.timer);
  }

  /** Begins a new comparison. @param {{title: string, schemes: string[], remarks: Remark[], flows: number, limit: string}} state */
  begin(state) {
    this.expect();
    this.next = state;
    this.timer = setTimeout(() => this.end(), PATIENCE_MS);
  }

  /** @param {SoFar[]} lines */
  take(lines) {
    for (const line of lines) {
      const round = this.rounds.get(line.runs) ?? new Map();
      round.set(line.scheme, line);
      this.rounds.set(line.runs, round);
    }
    this.settle();
  }

  /** @param {{scheme: string, throughput: number}} without */
  takeWithout(without) { this.without = without; this.soon(); }

  /** Ends the comparison: incomplete results are shown as well. */
  end() {
    this.impatient = true;
    this.settle();
  }

  /** Shows the complete round with the most runs; after `PATIENCE_MS`, an incomplete first round rather than old numbers. */
  settle() {
    const { schemes } = this.next ?? this;
    const whole = [...this.rounds].filter(([, round]) => schemes.every((name) => round.has(name))).map(([runs]) => runs);
    if (whole.length) this.show(Math.max(...whole), false);
    else if (this.rounds.size && (!this.fresh || this.partial) && this.impatient) this.show(Math.min(...this.rounds.keys()), true);
    this.soon();
  }

  /** @param {number} runs @param {boolean} partial */
  show(runs, partial) {
    this.shownNow = this.rounds.get(runs);
    Object.assign(this, { runs, partial, fresh: true });
    if (this.next) Object.assign(this, { schemes: this.next.schemes, remarks: this.next.remarks, state: this.next, next: null });
    if (partial) return;
    clearTimeout(this.timer);
    for (const older of [...this.rounds.keys()]) if (older < runs) this.rounds.delete(older);
  }

  /** Draws with the next frame, however many lines arrive until then. */
  soon() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.draw(); this.drawn(); });
  }

  /** Returns whether every scheme has numbers of this comparison. */
  get complete() { return this.fresh && !this.partial; }

  /** @param {string[]} schemes those whose packets are shown */
  highlight(schemes) {
    this.shown = schemes;
    this.soon();
  }

  remark(name) { return this.remarks.find((remark) => remark.scheme === name); }

  draw() {
    if (!this.schemes.length) return;
    const bar = (name) => {
      const throughput = this.shownNow.get(name)?.measures.throughput;
      return throughput ? { value: throughput.mean, ci95: throughput.ci95, published: null } : null;
    };
    const figure = {
      kind: 'bars', title: 'Throughput', value_label: 'throughput (Mbps)', groups: this.schemes, series: [{ name: '', bars: this.schemes.map(bar) }],
      colours: this.schemes.map((name) => this.colourOf(name)),
      notes: this.schemes.map((name) => this.known.get(name)?.brief ?? ''),
      pale: this.schemes.map((name) => Boolean(this.remark(name)?.same_as)),
      families: [...new Set(this.schemes.map((name) => this.known.get(name)?.group))].filter(Boolean).map((name) => ({ name: name.replaceAll('-', ' '), colour: GROUPS[name] ?? 0 })),
      limit: this.without && this.without.throughput > 0 ? { value: this.without.throughput, name: `no loss (${this.without.scheme}): ${this.without.throughput.toFixed(3)} Mbps` } : null,
    };
    const finding = this.finding();
    this.parts.finding.textContent = finding;
    this.parts.finding.hidden = !finding;
    if (this.chart) this.chart.update(figure);
    else this.chart = drawFigure(this.parts.bars, figure, { title: false, numbers: false, label: 'Throughput of each scheme in Mbps, with 95 % intervals' });
    for (const [name, row] of this.rows) if (!this.schemes.includes(name)) row.remove();
    this.schemes.forEach((name, index) => {
      const row = this.row(name);
      if (this.body.rows[index] !== row) this.body.insertBefore(row, this.body.rows[index] ?? null);
    });
    // Omit columns of metrics that do not occur.
    COLUMNS.forEach(([measure, , , always], index) => {
      const occurs = always || [...this.shownNow.values()].some((result) => (result.measures[measure]?.mean ?? 0) > 0);
      for (const row of [this.parts.table.tHead.rows[0], ...this.body.rows]) row.cells[index + 2].hidden = !occurs;
    });
    const told = this.told();
    this.parts.remarks.replaceChildren(...told.map((words) => make('li', { textContent: words })));
    this.parts.remarks.hidden = !told.length;
  }

  /** Returns remarks that prevent misinterpretation. */
  told() {
    const told = [];
    const list = (names) => (names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : names[0]);
    const groups = new Map();
    for (const { scheme, same_as, set_by } of this.remarks) {
      if (same_as) {
        const key = `${same_as} ${set_by ?? ''}`;
        groups.set(key, [...(groups.get(key) ?? []), scheme]);
      }
    }
    for (const [key, names] of groups) {
      const [same, fixed] = key.split(' ');
      told.push(`${list(names)}: the same ${names.length > 1 ? 'runs' : 'run'} as ${same}${fixed ? `, because the scenario sets ${fixed}` : ' under another name'} (pale).`);
    }
    const others = new Map();
    for (const { scheme, same_as, recovery_of, set_by } of this.remarks) {
      if (same_as) continue;
      const why = `the scenario sets ${set_by}, ${recovery_of ? `so the sender repairs as in ${recovery_of}` : 'so it is modified'}`;
      others.set(why, [...(others.get(why) ?? []), scheme]);
    }
    for (const [why, names] of others) told.push(`${list(names)}: ${why}.`);
    // Grouped by the number that was cut, so that a common remark appears once.
    const cut = new Map();
    for (const name of this.schemes.filter((name) => !this.remark(name)?.same_as)) {
      const of = this.unfinished(name);
      if (of && of.count > 0) cut.set(`${of.count} of ${of.all}`, [...(cut.get(`${of.count} of ${of.all}`) ?? []), name]);
    }
    const each = [...cut].map(([count, names]) => `${count} under ${list(names)}`);
    if (each.length) told.push(`Transfers incomplete at the time limit of ${this.state.limit}: ${each.join('; ')}. Their throughput counts the data delivered by then.`);
    return told;
  }

  /** Returns how many transfers of a scheme were cut at the limit. @param {string} name */
  unfinished(name) {
    const incomplete = this.shownNow.get(name)?.measures.incomplete;
    return incomplete ? { count: Math.round(incomplete.mean * incomplete.runs), all: incomplete.runs * this.state.flows } : null;
  }

  /** @param {string} name */
  row(name) {
    const row = this.rows.get(name) ?? this.make(name);
    const result = this.shownNow.get(name);
    row.classList.toggle('shown', this.shown.includes(name));
    row.querySelector('button').setAttribute('aria-pressed', String(this.shown.includes(name)));
    const same = this.remark(name)?.same_as;
    row.classList.toggle('same', Boolean(same));
    row.querySelector('.as').textContent = same ? ` = ${same}` : '';
    const throughput = result?.measures.throughput;
    const interval = throughput?.ci95 == null ? '' : ` ± ${throughput.ci95.toFixed(3)}`;
    const unfinished = this.unfinished(name);
    const texts = [
      throughput ? throughput.mean.toFixed(3) + interval : '–',
      ...COLUMNS.map(([column]) => (column === 'incomplete' && unfinished ? `${unfinished.count} of ${unfinished.all}` : result?.measures[column]?.mean.toFixed(1) ?? '–')),
      result ? String(result.runs) : '–',
    ];
    texts.forEach((text, index) => { row.cells[index + 1].textContent = text; });
    row.cells[COLUMNS.length + 1].classList.toggle('bad', (unfinished?.count ?? 0) > 0);
    return row;
  }

  /** @param {string} name */
  make(name) {
    const row = document.createElement('tr');
    row.dataset.scheme = name;
    const head = make('th', { scope: 'row' });
    const button = make('button', { type: 'button', className: 'plain', textContent: name, title: `Show a run of ${name}` });
    button.addEventListener('click', () => this.choose(name));
    head.append(button, make('span', { className: 'as' }));
    row.append(head, ...Array.from({ length: COLUMNS.length + 2 }, () => document.createElement('td')));
    this.rows.set(name, row);
    return row;
  }
}
