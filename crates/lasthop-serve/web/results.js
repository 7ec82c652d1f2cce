// Throughput of the schemes: bars with intervals, and a table of what else was measured.

import { drawFigure } from './charts.js';

/**
 * @typedef {{unit: string, mean: number, ci95: number|null, runs: number}} Estimate
 * @typedef {{scheme: string, runs: number, measures: Record<string, Estimate>}} SoFar
 */

const COLUMNS = ['timeouts', 'source_retransmissions', 'local_retransmissions', 'dupacks_suppressed'];

export class Results {
  /**
   * @param {HTMLElement} bars @param {HTMLTableElement} table @param {(scheme: string) => void} choose
   * @param {() => void} drawn called whenever what is shown has changed
   */
  constructor(bars, table, choose, drawn) {
    this.drawn = drawn;
    this.due = false;
    this.bars = bars;
    this.body = table.tBodies[0];
    this.choose = choose;
    this.chart = null;
    /** @type {string[]} */
    this.schemes = [];
    /** Those whose numbers are of this comparison. @type {Set<string>} */
    this.fresh = new Set();
    /** @type {Map<string, SoFar>} */
    this.results = new Map();
    this.shown = '';
    /** Rows stay, so that the keyboard's focus does. @type {Map<string, HTMLTableRowElement>} */
    this.rows = new Map();
  }

  /** A new comparison begins; what is there stays until it is replaced. @param {string[]} schemes */
  begin(schemes) {
    const kept = new Map(schemes.flatMap((name) => (this.results.has(name) ? [[name, this.results.get(name)]] : [])));
    this.fresh = new Set();
    this.schemes = schemes;
    this.results = kept;
    this.soon();
  }

  /** @param {SoFar[]} lines */
  take(lines) {
    for (const line of lines) {
      this.results.set(line.scheme, line);
      this.fresh.add(line.scheme);
    }
    this.soon();
  }

  /** Draws with the next frame, however many lines come until then. */
  soon() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.draw(); this.drawn(); });
  }

  /** Whether every scheme has numbers of this comparison. */
  get complete() { return this.schemes.every((name) => this.fresh.has(name)); }

  /** Fewest runs behind a scheme's numbers. */
  get runs() { return Math.min(...this.schemes.map((name) => (this.fresh.has(name) ? this.results.get(name).runs : 0))); }

  /** @param {string} scheme */
  highlight(scheme) {
    this.shown = scheme;
    this.soon();
  }

  draw() {
    const bar = (name) => {
      const throughput = this.results.get(name)?.measures.throughput;
      return throughput ? { value: throughput.mean, ci95: throughput.ci95, published: null } : null;
    };
    const figure = { kind: 'bars', title: 'Throughput', value_label: 'throughput (Mbps)', groups: this.schemes, series: [{ name: '', bars: this.schemes.map(bar) }] };
    if (this.chart) this.chart.update(figure);
    else this.chart = drawFigure(this.bars, figure, { title: false, numbers: false, label: 'Throughput of each scheme in Mbps, with 95 % intervals' });
    for (const [name, row] of this.rows) if (!this.schemes.includes(name)) row.remove();
    this.schemes.forEach((name, index) => {
      const row = this.row(name);
      if (this.body.rows[index] !== row) this.body.insertBefore(row, this.body.rows[index] ?? null);
    });
  }

  /** @param {string} name */
  row(name) {
    const row = this.rows.get(name) ?? this.make(name);
    const result = this.results.get(name);
    row.classList.toggle('shown', name === this.shown);
    row.classList.toggle('old', Boolean(result) && !this.fresh.has(name));
    row.querySelector('button').setAttribute('aria-pressed', String(name === this.shown));
    const throughput = result?.measures.throughput;
    const interval = throughput?.ci95 == null ? '' : ` ± ${throughput.ci95.toFixed(3)}`;
    const texts = [
      throughput ? throughput.mean.toFixed(3) + interval : '–',
      ...COLUMNS.map((column) => result?.measures[column]?.mean.toFixed(1) ?? '–'),
      result ? String(result.runs) : '–',
    ];
    texts.forEach((text, index) => { row.cells[index + 1].textContent = text; });
    return row;
  }

  /** @param {string} name */
  make(name) {
    const row = document.createElement('tr');
    row.dataset.scheme = name;
    const head = document.createElement('th');
    head.scope = 'row';
    const button = Object.assign(document.createElement('button'), { type: 'button', className: 'plain', textContent: name, title: `Show a run of ${name}` });
    button.addEventListener('click', () => this.choose(name));
    head.append(button);
    row.append(head, ...Array.from({ length: COLUMNS.length + 2 }, () => document.createElement('td')));
    this.rows.set(name, row);
    return row;
  }
}
