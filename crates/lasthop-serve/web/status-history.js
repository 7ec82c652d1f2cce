// History of a daemon's measurements, from the answers of the server.

/**
 * @typedef {{group: string, chart: 'throughput'|'paths'|'round-trip'|'loss'|'packets', name: string}} Line
 * @typedef {{lines: Line[], rounds: {number: number, age_seconds: number, values: (number|null)[]}[], incomplete: boolean}} Answer
 */

/** Units of the charts: title, label of the axis, and the factor for the server's values. */
const CHARTS = {
  throughput: { title: 'Throughput', unit: 'Mbit/s', factor: 1e-6 },
  paths: { title: 'Sent on each path, with repairs', unit: 'Mbit/s', factor: 1e-6 },
  'round-trip': { title: 'Round trip', unit: 'ms', factor: 1e3 },
  loss: { title: 'Loss', unit: '% of packets', factor: 100 },
  packets: { title: 'Losses and repairs', unit: 'packets/s', factor: 1 },
};

export class History {
  constructor() {
    /** @type {Line[]} */
    this.lines = [];
    /** @type {{at: number, values: (number|null)[]}[]} times in seconds of this page's clock */
    this.rounds = [];
  }

  /**
   * Adds an answer. Returns `false` if the lines have changed and earlier rounds are missing: they must be requested again.
   * @param {Answer} answer @param {boolean} whole true if the answer has all rounds @param {number} now @param {number} span seconds to keep
   */
  take({ lines, rounds }, whole, now, span) {
    const same = JSON.stringify(lines) === JSON.stringify(this.lines);
    if (!same && !whole) return false;
    if (whole) this.rounds = [];
    this.lines = lines;
    this.rounds.push(...rounds.map(({ age_seconds: age, values }) => ({ at: now - age, values })));
    this.rounds = this.rounds.filter(({ at }) => now - at <= span);
    return true;
  }

  /** Returns the latest value of a line, in the server's unit. @param {string} group @param {string} chart @param {string} name */
  latest(group, chart, name) {
    const at = this.lines.findIndex((line) => line.group === group && line.chart === chart && line.name === name);
    return at < 0 ? null : this.rounds.at(-1)?.values[at] ?? null;
  }

  /**
   * Returns the charts of a group as figures, the latest minutes at the right.
   * @param {string} group @param {number} now @param {number} span @returns {[string, object][]} name and figure
   */
  figures(group, now, span) {
    return Object.entries(CHARTS).flatMap(([chart, { title, unit, factor }]) => {
      const places = this.lines.map((line, at) => at).filter((at) => this.lines[at].group === group && this.lines[at].chart === chart);
      // Of a single path, the throughput says enough.
      if (places.length < (chart === 'paths' ? 2 : 1)) return [];
      const points = (at) => this.rounds.map((round) => {
        const value = round.values[at];
        return [(round.at - now) / 60, value == null ? null : value * factor];
      });
      const series = places.map((at) => ({ name: this.lines[at].name, points: points(at) }));
      return [[chart, { kind: 'history', title, x_label: 'minutes', y_label: unit, x: [-span / 60, 0], series }]];
    });
  }
}
