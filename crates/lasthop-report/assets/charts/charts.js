// Draws figures that lasthop writes as JSON, with uPlot: bars with intervals, packets and windows over time, lines with error bars.
// Beside each stands its legend, and its numbers as a table for those who cannot see it.

/**
 * @typedef {{value: number, ci95: number|null, published: number|null}} Bar
 * @typedef {[number, number]} Point seconds, value
 * @typedef {{kind: 'bars', title: string, value_label: string, groups: string[], series: {name: string, bars: (Bar|null)[]}[],
 *   colours?: number[], pale?: boolean[], families?: {name: string, colour: number}[], notes?: string[],
 *   limit?: {name: string, value: number}|null}} Bars
 *   of a single series each group may have its colour, be pale, or have a note below its name; `limit` is a line across all
 * @typedef {{kind: 'sequence', title: string, y_label: string, series: {name: string, sent: Point[], retransmitted: Point[]}[]}} Sequence
 * @typedef {{kind: 'window', title: string, y_label: string, series: {name: string, points: Point[]}[]}} Windows
 * @typedef {{kind: 'lines', title: string, x_label: string, y_label: string, x_scale: 'linear'|'log',
 *   series: {name: string, points: {x: number, y: number, ci95: number|null, published: number|null}[]}[]}} Lines
 * @typedef {{kind: 'history', title: string, x_label: string, y_label: string, x: [number, number],
 *   series: {name: string, points: [number, number|null][]}[]}} History lines with gaps between fixed ends, which move on with time
 * @typedef {Bars|Sequence|Windows|Lines|History} Figure
 * @typedef {'box'|'line'|'dashes'|'dot'|'cross'|'diamond'} Mark
 * @typedef {{name: string, mark: Mark, colour: number, dash?: number[], xs: number[], ys: (number|null)[], cis?: (number|null)[],
 *   published?: (number|null)[]}} Trace
 * @typedef {{label?: string, height?: number, title?: boolean, numbers?: boolean, onTime?: (seconds: number) => void,
 *   extent?: Extent, together?: {chart: uPlot|null}[], colours?: number[]}} Options `together` lists what is zoomed together over time;
 *   `colours` are those of the series, by their place among the six, where they are dots or lines
 * @typedef {{x: number, y: number}} Extent how far the axes reach at least
 */

const TABLE_ROWS = 500;
/** The legend's entry for published numbers. */
const PUBLISHED = { name: 'published', mark: 'diamond', colour: 0 };
const FONT = '12px system-ui, sans-serif';
const SMALL = '11px system-ui, sans-serif';

/** The same Okabe-Ito colours as in the pictures, in CSS so that they suit light and dark. */
const colour = (element, number) => css(element, `--chart-${(number % 6) + 1}`);

/** How the line of a series is broken: colours come again after six, and no two lines are to look alike. */
const dash = (number) => [[], [7, 4], [2, 4]][Math.floor(number / 6) % 3];
const css = (element, name) => getComputedStyle(element).getPropertyValue(name).trim() || '#888';

/**
 * Draws a figure into `element`, in place of what is there, and again when the width or the colour scheme changes.
 * @param {HTMLElement} element @param {Figure} figure @param {Options} [options]
 * @returns {{update: (figure: Figure, extent?: Extent, colours?: number[]) => void}}
 */
export function drawFigure(element, figure, options = {}) {
  element.classList.add('chart');
  const title = make('p', 'chart-title');
  const legend = make('ul', 'chart-legend');
  const plot = make('div', 'chart-plot');
  plot.setAttribute('role', 'img');
  const numbers = make('details', 'chart-numbers');
  const summary = make('summary', '', 'Numbers as a table');
  const scroll = make('div', 'scroll');
  scroll.tabIndex = 0;
  numbers.append(summary, scroll);
  element.replaceChildren(...(options.title === false ? [] : [title]), legend, plot, ...(options.numbers === false ? [] : [numbers]));

  /** @type {{chart: uPlot|null}} */
  const handle = { chart: null };
  options.together?.push(handle);
  let { extent } = options;
  let shown = figure;
  const fill = () => { if (numbers.open) scroll.replaceChildren(tableOf(shown)); };
  let { colours } = options;
  const redraw = () => {
    const width = Math.floor(plot.clientWidth);
    if (width < 40) return;
    handle.chart?.destroy();
    handle.chart = uplot(plot, shown, width, { ...options, extent, colours });
  };
  const update = (next, reach, hues = colours) => {
    shown = next;
    extent = reach;
    colours = hues;
    title.textContent = next.title;
    scroll.setAttribute('role', 'region');
    scroll.setAttribute('aria-label', `Numbers of: ${options.label ?? next.title}`);
    plot.setAttribute('aria-label', `${options.label ?? next.title}. ${inWords(next)}`);
    legend.replaceChildren(...legendOf(element, next, colours));
    legend.hidden = !legend.children.length;
    redraw();
    fill();
  };
  numbers.addEventListener('toggle', fill);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => update(shown, extent));
  let width = 0;
  new ResizeObserver(() => {
    if (Math.abs(plot.clientWidth - width) >= 1) { width = plot.clientWidth; redraw(); }
  }).observe(plot);
  update(figure, extent);
  return { update };
}

/** @param {string} tag @param {string} [name] @param {string} [text] */
function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** What a figure shows, in a sentence. @param {Figure} figure */
function inWords(figure) {
  const names = figure.series.map((series) => series.name).filter(Boolean);
  const of = names.length ? ` of ${names.join(', ')}` : '';
  switch (figure.kind) {
    case 'bars': return `Bars${of} for ${figure.groups.join(', ')}${figure.limit ? `, and a line: ${figure.limit.name}` : ''}; the numbers are in the table.`;
    case 'sequence': return `Packets over time${of}; the numbers are in the table.`;
    case 'window': return `Windows over time${of}; the numbers are in the table.`;
    case 'history': return `${figure.y_label} over the last ${-figure.x[0]} minutes${of}${latest(figure)}; the numbers are in the table.`;
    case 'lines': return `${figure.y_label} over ${figure.x_label}${of}; the numbers are in the table.`;
  }
}

/** The latest value of each line, in words. @param {History} figure */
function latest(figure) {
  const ends = figure.series.map(({ name, points }) => [name, points.at(-1)?.[1]]).filter(([, value]) => value != null);
  return ends.length ? `; now ${ends.map(([name, value]) => `${name} ${value.toPrecision(3)}`.trim()).join(', ')}` : '';
}

/** Order in which dots and windows, lines, and crosses take the six colours. */
const DOTS = [0, 2, 4, 1, 3, 5];
const LINES = [0, 1, 2, 3, 4, 5];
const CROSSES = [5, 3, 1, 4, 2, 0];

/** The colours of the series of a figure: those given, and for others the next that none of those has. @param {Exclude<Figure, Bars>} figure @param {number[]} [given] */
function coloursOf(figure, given = []) {
  const order = figure.kind === 'lines' || figure.kind === 'history' ? LINES : DOTS;
  if (!given.length) return figure.series.map((_, number) => order[number % 6]);
  const taken = [...given];
  return figure.series.map((_, number) => {
    if (number < given.length) return given[number];
    const free = order.find((colour) => !taken.includes(colour)) ?? order[number % 6];
    taken.push(free);
    return free;
  });
}

/** Series with marks and colours. @param {Exclude<Figure, Bars>} figure @param {number[]} [given] @returns {Trace[]} */
function traces(figure, given) {
  const named = (name, what) => (name ? `${name}, ${what}` : what);
  const split = (points) => ({ xs: points.map((point) => point[0]), ys: points.map((point) => point[1]) });
  const colours = coloursOf(figure, given);
  // Crosses have colours that no dots have, as in the pictures.
  const dots = colours.filter((_, number) => figure.series[number].sent?.length);
  const crosses = [];
  return figure.series.flatMap((series, number) => {
    switch (figure.kind) {
      case 'sequence': {
        const sent = { name: named(series.name, 'sent'), mark: 'dot', colour: colours[number], ...split(series.sent) };
        const unused = CROSSES.filter((colour) => !crosses.includes(colour));
        const cross = unused.find((colour) => !dots.includes(colour)) ?? unused[0] ?? CROSSES[0];
        const again = { name: named(series.name, 'retransmitted'), mark: 'cross', colour: cross, ...split(series.retransmitted) };
        if (again.xs.length) crosses.push(cross);
        return [sent, again].filter((trace) => trace.xs.length);
      }
      case 'window': return [{ name: series.name, mark: 'line', colour: colours[number], ...split(series.points) }];
      case 'history': return [{ name: series.name, mark: 'line', colour: colours[number], dash: dash(number), ...split(series.points) }];
      case 'lines': return [{
        name: series.name, mark: 'line', colour: colours[number], dash: dash(number),
        xs: series.points.map((point) => point.x), ys: series.points.map((point) => point.y), cis: series.points.map((point) => point.ci95),
        published: series.points.map((point) => point.published),
      }];
    }
  });
}

function legendOf(element, figure, colours) {
  /** @type {{name: string, mark: Mark, colour: number}[]} */
  let entries = [];
  if (figure.kind === 'bars') {
    entries = figure.series.filter((series) => series.name).map((series, colour) => ({ name: series.name, mark: 'box', colour }));
    entries.push(...(figure.families ?? []).map(({ name, colour }) => ({ name, mark: 'box', colour })));
    if (figure.series.some((series) => series.bars.some((bar) => bar?.published != null))) entries.push(PUBLISHED);
    if (figure.limit) entries.push({ name: figure.limit.name, mark: 'dashes', colour: -1 });
  } else {
    entries = traces(figure, colours);
    if (entries.length === 1 && !entries[0].name) entries = [];
    if (figure.kind === 'lines' && hasPublished(traces(figure))) entries.push(PUBLISHED);
  }
  const shapes = {
    box: '<rect x="3" y="1" width="12" height="10"/>',
    line: '<path d="M0 6h18" stroke-width="2.5"/>',
    dashes: '<path d="M0 6h18" stroke-width="1.8" stroke-dasharray="5 3"/>',
    dot: '<circle cx="9" cy="6" r="3"/>',
    cross: '<path d="M5 2l8 8m0-8l-8 8" stroke-width="1.8"/>',
    diamond: '<path d="M9 1l5 5-5 5-5-5z" fill="none" stroke-width="1.8"/>',
  };
  return entries.map((entry) => {
    const item = make('li', `of-${entry.mark}`);
    const hue = entry.mark === 'diamond' || entry.mark === 'dashes' ? css(element, '--ink') : colour(element, entry.colour);
    const shape = entry.dash?.length ? shapes.line.replace('/>', ` stroke-dasharray="${entry.dash}"/>`) : shapes[entry.mark];
    // Only the shapes above and a colour of the style sheet stand in this.
    item.innerHTML = `<svg viewBox="0 0 18 12" aria-hidden="true" fill="${hue}" stroke="${hue}">${shape}</svg>`;
    item.append(make('span', '', entry.name));
    return item;
  });
}

function uplot(plot, figure, width, options) {
  const ink = css(plot, '--ink');
  const grid = { stroke: css(plot, '--line'), width: 1 };
  const axis = { stroke: css(plot, '--soft'), font: FONT, labelFont: FONT, grid, ticks: { ...grid, size: 4 }, gap: 4, labelGap: 2, labelSize: 20, size: 30 };
  const common = { width, legend: { show: false }, padding: [8, 10, 0, 4] };
  axis.values = numbered;
  return figure.kind === 'bars'
    ? bars(plot, figure, { ink, axis, common, options })
    : overX(plot, figure, { ink, axis, common, options });
}

/** Digits after the point that the multiples of a step need. @param {number} step */
export function decimals(step) {
  for (let digits = 0; digits < 12; digits++) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * Math.max(Math.abs(scaled), 1e-3)) return digits;
  }
  return 12;
}

/** Numbers at an axis: all with as many digits as the step needs, so that no two of them look alike. @param {(number|null)[]} splits @param {number} step */
function numbered(u, splits, axis, space, step) {
  const digits = decimals(step);
  const format = new Intl.NumberFormat('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  // Rounding may leave a zero with a sign.
  return splits.map((value) => (value === null ? '' : format.format(Math.abs(value) < step / 1e6 ? 0 : value)));
}

/** Room for the numbers at a vertical axis. */
const room = (u, values) => Math.max(46, Math.ceil(textWidth(values ?? [])) + 14);

/** Lying bars: names of schemes are long. */
function bars(plot, figure, { ink, axis, common, options }) {
  const groups = figure.groups.length;
  const series = Math.max(figure.series.length, 1);
  // On a phone many bars leave room for what moves them.
  const tight = series === 1 && groups > 6 && common.width < 480;
  const noted = !tight && (figure.notes?.some(Boolean) ?? false);
  const thickness = tight ? 11 : noted ? 28 : series === 1 ? 18 : Math.max(7, Math.min(14, 28 / series));
  const height = options.height ?? Math.max(1, groups) * (thickness * series + (tight ? 4 : 8)) + (tight ? 52 : 60);
  const ends = figure.series.flatMap((one) => one.bars).filter(Boolean).map((bar) => Math.max(bar.value + (bar.ci95 ?? 0), bar.published ?? 0));
  const most = Math.max(...ends.filter(Number.isFinite), figure.limit?.value ?? 0, 1e-9) * 1.04;
  const labels = figure.groups.map((group, at) => (noted && figure.notes[at] ? `${group}\n${figure.notes[at]}` : group));
  const names = Math.min(textWidth(labels.flatMap((label) => label.split('\n'))) + 12, common.width * 0.45);
  const draw = (u) => {
    const { ctx } = u;
    const scale = devicePixelRatio;
    const x = (value) => u.valToPos(value, 'y', true);
    ctx.save();
    if (noted) labels.forEach((label, group) => nameWithNote(plot, u, label.split('\n'), u.valToPos(group, 'x', true), ink));
    figure.groups.forEach((_, group) => figure.series.forEach((one, number) => {
      const bar = one.bars[group];
      if (!bar) return;
      const middle = u.valToPos(group, 'x', true) + (number - (series - 1) / 2) * thickness * scale;
      const half = (thickness / 2 - 1) * scale;
      ctx.fillStyle = colour(plot, figure.colours?.[group] ?? number);
      ctx.globalAlpha = figure.pale?.[group] ? 0.35 : 1;
      ctx.fillRect(x(0), middle - half, x(Math.max(bar.value, 0)) - x(0), 2 * half);
      ctx.globalAlpha = 1;
      ctx.strokeStyle = ink;
      ctx.lineWidth = 1.2 * scale;
      if (bar.ci95 != null) {
        const [low, high] = [x(Math.max(bar.value - bar.ci95, 0)), x(bar.value + bar.ci95)];
        line(ctx, [[low, middle], [high, middle]]);
        for (const end of [low, high]) line(ctx, [[end, middle - half * 0.5], [end, middle + half * 0.5]]);
      }
      if (bar.published != null) {
        diamond(plot, ctx, x(bar.published), middle, ink);
      }
    }));
    if (figure.limit) {
      const { top, height } = u.bbox;
      ctx.strokeStyle = ink;
      ctx.lineWidth = 1.5 * scale;
      ctx.setLineDash([5 * scale, 3 * scale]);
      line(ctx, [[x(figure.limit.value), top], [x(figure.limit.value), top + height]]);
    }
    ctx.restore();
  };
  const chart = new uPlot({
    ...common,
    height,
    cursor: { show: false },
    scales: { x: { time: false, ori: 1, dir: -1, range: [-0.5, groups - 0.5] }, y: { ori: 0, dir: 1, range: [0, most] } },
    axes: [
      { ...axis, ...(tight ? { font: SMALL } : {}), stroke: ink, scale: 'x', side: 3, size: names, splits: () => figure.groups.map((_, group) => group), values: () => (noted ? labels.map(() => '') : labels), grid: { show: false }, ticks: { show: false } },
      { ...axis, scale: 'y', side: 2, space: tight ? 40 : 72, label: figure.value_label },
    ],
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    hooks: { draw: [draw] },
  }, [figure.groups.map((_, group) => group), figure.groups.map(() => 0)], plot);
  return chart;
}

/** A group's name and, below it, its note, to the left of the bars. */
function nameWithNote(plot, u, [name, note], middle, ink) {
  const { ctx } = u;
  const scale = devicePixelRatio;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  const put = (text, font, hue, down) => {
    ctx.font = font.replace(/^\d+/, (size) => String(Number(size) * scale));
    ctx.fillStyle = hue;
    ctx.fillText(text, u.bbox.left - 8 * scale, middle + down * scale);
  };
  put(name, FONT, ink, note ? -7 : 0);
  if (note) put(note, SMALL, css(plot, '--soft'), 7);
}

function line(ctx, points, filled = false) {
  ctx.beginPath();
  points.forEach(([x, y], index) => (index ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  if (filled) ctx.fill();
  ctx.stroke();
}

/** The sign for a published number at a point of the canvas. */
function diamond(plot, ctx, x, y, hue) {
  const r = 4.5 * devicePixelRatio;
  ctx.fillStyle = css(plot, '--paper');
  ctx.strokeStyle = hue;
  ctx.lineWidth = 1.2 * devicePixelRatio;
  line(ctx, [[x, y - r], [x + r, y], [x, y + r], [x - r, y], [x, y - r]], true);
}

/** Whether any trace has published numbers. */
const hasPublished = (all) => all.some((trace) => trace.published?.some((value) => value != null));

function textWidth(texts) {
  const ctx = document.createElement('canvas').getContext('2d');
  ctx.font = FONT;
  return Math.max(0, ...texts.map((text) => ctx.measureText(text).width));
}

/** Everything with numbers on both axes. */
function overX(plot, figure, { ink, axis, common, options }) {
  const all = traces(figure, options.colours);
  const moves = figure.kind === 'history';
  const overTime = figure.kind !== 'lines' && !moves;
  const log = figure.kind === 'lines' && figure.x_scale === 'log';
  const xs = [...new Set(all.flatMap((trace) => trace.xs))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, index) => [x, index]));
  // One column for all: gaps where a series has nothing. Two packets of a series at the same instant: the later one shows.
  const columns = all.map((trace) => {
    const column = new Array(xs.length).fill(null);
    trace.xs.forEach((x, index) => { column[place.get(x)] = trace.ys[index]; });
    return column;
  });
  /** The low end of an interval: that of a positive mean ends at 0, as the quantity is not negative then. */
  const lowEnd = (trace, index) => {
    const low = trace.ys[index] - (trace.cis?.[index] ?? 0);
    return trace.ys[index] < 0 ? low : Math.max(low, 0);
  };
  const least = all.reduce((least, trace) => trace.ys.reduce((least, y, index) => Math.min(least, y == null ? 0 : lowEnd(trace, index), trace.published?.[index] ?? 0), least), 0);
  const most = all.reduce((most, trace) => trace.ys.reduce((most, y, index) => Math.max(most, y + (trace.cis?.[index] ?? 0), trace.published?.[index] ?? 0), most), options.extent?.y ?? 0);
  const height = options.height ?? Math.round(Math.max(220, Math.min(380, common.width * 0.5)));
  const errorBars = (u) => all.forEach((trace) => trace.cis?.forEach((ci, index) => {
    if (ci == null) return;
    const scale = devicePixelRatio;
    const [x, low, high] = [u.valToPos(trace.xs[index], 'x', true), u.valToPos(lowEnd(trace, index), 'y', true), u.valToPos(trace.ys[index] + ci, 'y', true)];
    u.ctx.strokeStyle = colour(plot, trace.colour);
    u.ctx.lineWidth = 1.5 * scale;
    line(u.ctx, [[x, low], [x, high]]);
    for (const y of [low, high]) line(u.ctx, [[x - 4 * scale, y], [x + 4 * scale, y]]);
  }));
  const published = (u) => all.forEach((trace) => trace.published?.forEach((value, index) => {
    if (value != null) diamond(plot, u.ctx, u.valToPos(trace.xs[index], 'x', true), u.valToPos(value, 'y', true), colour(plot, trace.colour));
  }));
  const series = all.map((trace) => {
    const hue = colour(plot, trace.colour);
    if (trace.mark === 'line') {
      const paths = overTime ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
      const points = { show: !overTime && !moves, size: 7, fill: hue };
      return { label: trace.name, stroke: hue, width: overTime || moves ? 1.5 : 2, dash: trace.dash, spanGaps: !moves, paths, points };
    }
    return { label: trace.name, stroke: hue, fill: hue, width: trace.mark === 'cross' ? 1.4 : 1e-3, paths: marks(trace.mark), points: { show: false } };
  });
  const own = log && xs.length <= 10 ? { splits: () => xs, values: (_, splits) => splits.map(String), filter: (_, splits) => splits } : {};
  const sync = overTime ? { sync: { key: 'time', setSeries: false } } : {};
  const chart = new uPlot({
    ...common,
    height,
    cursor: { show: overTime, points: { show: false }, drag: { x: overTime, y: false, setScale: true }, y: false, ...sync },
    scales: {
      x: { time: false, ...(log ? { distr: 3 } : {}), range: moves ? figure.x : (_, low, high) => (overTime ? [zoomed(low, xs[0]) ? low : 0, high === xs.at(-1) ? Math.max(high, options.extent?.x ?? 0) : high] : around(low, high, log)) },
      y: { range: (_, low) => [figure.kind === 'sequence' && low > most * 0.1 ? low : least * 1.04, most > 0 || least < 0 ? most * 1.04 : 1] },
    },
    axes: [
      // Numbers at a logarithmic axis have no common step.
      { ...axis, ...(log ? { values: undefined } : {}), label: overTime ? 'time (s)' : figure.x_label, space: 70, ...own },
      { ...axis, label: figure.y_label, size: room, space: 40 },
    ],
    series: [{}, ...series],
    hooks: { draw: [errorBars, published], setScale: overTime && options.together ? [alike(options.together)] : [] },
  }, [xs, ...columns], plot);
  if (options.onTime) {
    chart.over.addEventListener('click', () => {
      const seconds = chart.posToVal(chart.cursor.left ?? -1, 'x');
      if ((chart.cursor.left ?? -1) >= 0 && Number.isFinite(seconds)) options.onTime(seconds);
    });
  }
  return chart;
}

/** Zooms the others as this one is zoomed. @param {{chart: uPlot|null}[]} together */
function alike(together) {
  return (u, scale) => {
    const { min, max } = u.scales.x;
    // A chart that is being made says so too, before anybody has zoomed.
    if (scale !== 'x' || !together.some(({ chart }) => chart === u)) return;
    for (const { chart } of together) {
      if (!chart || chart === u || (chart.scales.x.min === min && chart.scales.x.max === max)) continue;
      chart.setScale('x', { min, max });
    }
  };
}

/** Whether the left end is one that somebody chose. */
const zoomed = (low, first) => low > first;

/** Some room at both ends. */
function around(low, high, log) {
  if (log) { const room = (high / low) ** 0.05; return [low / room, high * room]; }
  const room = (high - low) * 0.05 || 1;
  return [low - room, high + room];
}

/** Draws each point as a dot or a cross; points on top of each other once. @param {Mark} mark */
function marks(mark) {
  return (u, index, first, last) => {
    const [path, taken, scale] = [new Path2D(), new Set(), devicePixelRatio];
    const r = (mark === 'dot' ? 1.6 : 3.6) * scale;
    for (let i = first; i <= last; i++) {
      const value = u.data[index][i];
      if (value == null) continue;
      const x = Math.round(u.valToPos(u.data[0][i], 'x', true));
      const y = Math.round(u.valToPos(value, 'y', true));
      const key = x * 1e5 + y;
      if (taken.has(key)) continue;
      taken.add(key);
      if (mark === 'dot') path.rect(x - r, y - r, 2 * r, 2 * r);
      else { path.moveTo(x - r, y - r); path.lineTo(x + r, y + r); path.moveTo(x - r, y + r); path.lineTo(x + r, y - r); }
    }
    return { stroke: path, fill: mark === 'dot' ? path : null, clip: null, flags: 1 };
  };
}

/** A figure's numbers. @param {Figure} figure */
function tableOf(figure) {
  const estimate = (value, ci95) => (ci95 == null ? value.toFixed(3) : `${value.toFixed(3)} ± ${ci95.toFixed(3)}`);
  let head;
  let rows;
  if (figure.kind === 'bars') {
    const published = (one) => one.bars.some((bar) => bar?.published != null);
    head = ['', ...figure.series.flatMap((one) => [one.name || figure.value_label, ...(published(one) ? ['published'] : [])])];
    rows = figure.groups.map((group, index) => [group, ...figure.series.flatMap((one) => {
      const bar = one.bars[index];
      return [bar ? estimate(bar.value, bar.ci95) : '', ...(published(one) ? [bar?.published ?? ''] : [])];
    })]);
  } else {
    const moves = figure.kind === 'history';
    const timed = figure.kind !== 'lines' && !moves;
    const all = traces(figure);
    const beside = hasPublished(all);
    head = ['series', timed ? 'time (s)' : figure.x_label, figure.y_label, ...(beside ? ['published'] : [])];
    const known = (trace) => trace.xs.map((_, index) => index).filter((index) => trace.ys[index] != null);
    rows = all.flatMap((trace) => known(trace).map((index) => [
      trace.name, timed ? trace.xs[index].toFixed(6) : moves ? trace.xs[index].toFixed(2) : String(trace.xs[index]), estimate(trace.ys[index], trace.cis?.[index]),
      ...(beside ? [trace.published?.[index]?.toFixed(3) ?? ''] : []),
    ]));
    // The first rows are the latest ones.
    if (moves) rows.sort((a, b) => Number(b[1]) - Number(a[1]));
    if (timed) rows.sort((a, b) => Number(a[1]) - Number(b[1]));
  }
  const table = make('table');
  if (rows.length > TABLE_ROWS) {
    table.append(make('caption', '', `The first ${TABLE_ROWS} of ${rows.length} rows.`));
    rows.length = TABLE_ROWS;
  }
  const row = (cells, header) => {
    const line = make('tr');
    line.append(...cells.map((cell, index) => {
      const element = make(header || !index ? 'th' : 'td', '', String(cell));
      if (header || !index) element.setAttribute('scope', header ? 'col' : 'row');
      return element;
    }));
    return line;
  };
  const [thead, tbody] = [make('thead'), make('tbody')];
  thead.append(row(head.map((text) => text || 'group'), true));
  tbody.append(...rows.map((cells) => row(cells, false)));
  table.append(thead, tbody);
  return table;
}
