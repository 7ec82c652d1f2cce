// Tests of `index.html` of `lasthop reproduce` in a real browser: from a file, without a network and without scripts.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { LASTHOP, browser } from './page.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let chromium;
let folder;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lasthop-browser-'));
  execFileSync(LASTHOP, ['reproduce', 'balakrishnan1997', '--runs', '2', '--out', folder], { stdio: ['ignore', 'ignore', 'inherit'] });
  chromium = await browser();
});
after(async () => { await chromium?.close(); rmSync(folder, { recursive: true, force: true }); });

/** @param {object} options */
async function open(options) {
  const page = await chromium.newPage({ viewport: { width: 1200, height: 900 }, offline: true, ...options });
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') page.errors.push(message.text()); });
  page.asked = [];
  page.on('request', (request) => page.asked.push(request.url()));
  await page.goto(pathToFileURL(join(folder, 'index.html')).href);
  return page;
}

test('every figure is drawn, with its numbers as a table, and nothing is asked of a network', async () => {
  const page = await open({ javaScriptEnabled: false });
  const figures = await page.locator('figure').all();
  assert.ok(figures.length > 3);
  for (const figure of figures) {
    assert.ok(await figure.locator('svg[role=img]').isVisible());
    assert.ok(await figure.locator('svg text').count() > 5);
    await figure.locator('summary').click();
    await figure.locator('tbody tr').first().waitFor();
  }
  assert.equal(await page.locator('script').count(), 0);
  assert.deepEqual(page.errors, []);
  assert.deepEqual(page.asked.filter((url) => !url.startsWith('file:')), []);
  await page.close();
});

test('figures have the colours of the page, light and dark', async () => {
  const seen = [];
  for (const colorScheme of ['light', 'dark']) {
    const page = await open({ colorScheme });
    seen.push(await page.locator('figure svg').first().evaluate((svg) => {
      const colour = (selector, name) => getComputedStyle(svg.querySelector(selector))[name];
      return { paper: colour('.fill-paper', 'fill'), page: getComputedStyle(document.body).backgroundColor, ink: colour('.fill-ink', 'fill'), series: colour('.fill-1', 'fill') };
    }));
    await page.close();
  }
  for (const { paper, page } of seen) assert.equal(paper, page);
  for (const role of ['paper', 'ink', 'series']) assert.notEqual(seen[0][role], seen[1][role], role);
});

test('texts of a figure do not overlap, and stay within it', async () => {
  const page = await open({});
  const wrong = await page.$$eval('figure svg', (figures) => figures.flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }));
    const apart = (one, other) => one.right <= other.left + 1 || other.right <= one.left + 1 || one.bottom <= other.top + 4 || other.bottom <= one.top + 4;
    const outside = texts.filter(({ box }) => box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom);
    const pairs = texts.flatMap((one, at) => texts.slice(at + 1).filter((other) => !apart(one.box, other.box)).map((other) => `${one.words} / ${other.words}`));
    return [...outside.map(({ words }) => `outside: ${words}`), ...pairs];
  }));
  assert.deepEqual(wrong, []);
  await page.close();
});

test('axe finds nothing serious, and a phone need not scroll sideways', async () => {
  const page = await open({ bypassCSP: true, viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(' ')}`), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.close();
});

test('on a phone each claim takes the width of the page', async () => {
  const page = await open({ viewport: { width: 390, height: 844 } });
  const claims = await page.$$eval('.claims tbody tr', (rows) => rows.map((row) => {
    const [, words, verdict] = [...row.cells].map((cell) => cell.getBoundingClientRect());
    return { width: words.width, right: verdict.right };
  }));
  assert.equal(claims.length, 12);
  for (const { width, right } of claims) assert.ok(width > 300 && right <= 390, `${width} ${right}`);
  await page.close();
});

test('a page says what was studied, names configurations in words, and uses its width', async () => {
  const page = await open({ viewport: { width: 1600, height: 900 } });
  const about = await page.locator('section[aria-labelledby=about]').innerText();
  for (const words of [/twelve ways/, /10\.1109\/90\.650137/, /lasthop \d+\.\d+\.\d+, seed 1, 2 runs/, /those beyond 10 % or 10 pp are marked/]) assert.match(about, words);
  assert.equal(await page.locator('th', { hasText: /^[A-Z0-9-]+\/(LAN|WAN)\// }).count(), 0);
  assert.doesNotMatch(await page.locator('main').innerText(), /\/(LAN|WAN)\/\d/);
  // Marked cells match the rule.
  const wrong = await page.$$eval('.tables td', (cells) => cells.filter((cell) => {
    const [, number] = /^[+−]?([\d.]+) (?:%|pp)$/.exec(cell.textContent) ?? [];
    return number !== undefined && number !== '10.0' && (Number(number) > 10) !== cell.classList.contains('far');
  }).map((cell) => cell.textContent));
  assert.deepEqual(wrong, []);
  // Two figures are side by side, and tables are as wide as the page or side by side.
  const [first, second] = await page.$$eval('figure', (figures) => figures.slice(0, 2).map((figure) => { const { x, y, right } = figure.getBoundingClientRect(); return { x, y, right }; }));
  assert.ok(first.y === second.y && second.x > first.right, JSON.stringify([first, second]));
  const right = await page.$$eval('.tables > .wide table', (tables) => tables.map((table) => table.getBoundingClientRect().right));
  for (const edge of right) assert.ok(edge > 1500, `${edge}`);
  await page.close();
});

test('a scheme has one colour in all figures', async () => {
  const page = await open({});
  // The sample of a legend's entry, unless it is a cross.
  const colours = await page.$$eval('figure svg .entry', (entries) => entries.flatMap((entry) => {
    const words = entry.querySelector('text').textContent;
    const sample = entry.querySelector('g[class^=fill-]:not(.fill-ink), g[class^=line-]:not(.line-ink)');
    return words.endsWith('retransmitted') || !sample ? [] : [[words.replace(/, sent$/, ''), getComputedStyle(sample)[sample.classList[0].startsWith('fill') ? 'fill' : 'stroke']]];
  }));
  const of = new Map();
  for (const [name, colour] of colours) of.set(name, (of.get(name) ?? new Set()).add(colour));
  for (const name of ['LL-TCP-AWARE', 'LL', 'E2E', 'E2E-ELN', 'wired', 'wireless']) {
    assert.ok(colours.filter(([known]) => known === name).length > 1, name);
    assert.equal(of.get(name).size, 1, `${name}: ${[...of.get(name)].join(' ')}`);
  }
  await page.close();
});
