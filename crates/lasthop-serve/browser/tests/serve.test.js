// Tests of the page of `lasthop serve` in a real browser.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ALONE, LASTHOP, SMALL, browser, go, headings, numbers, open, serve, settled } from './page.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let chromium;
let server;
before(async () => { [chromium, server] = await Promise.all([browser(), serve()]); });
after(async () => { await chromium?.close(); server?.stop(); });

const at = (words = '') => `${server.url}#${SMALL}${words && '&'}${words}`;

/** Moves a slider like a user. */
async function slide(page, id, position) {
  await page.locator(`#range-${id}`).evaluate((range, position) => {
    range.value = String(position);
    range.dispatchEvent(new Event('input', { bubbles: true }));
  }, position);
  await settled(page);
}

test('the page opens on a finding between modern endpoints, which its numbers bear out', async () => {
  const page = await open(chromium, server.url, { viewport: { width: 1366, height: 768 } });
  const shown = await numbers(page);
  assert.deepEqual(Object.keys(shown), ['E2E-CUBIC', 'E2E-BBR', 'E2E-BBR3', 'SNOOP', 'SPLIT-BBR']);
  const finding = await page.locator('#finding').textContent();
  const [, without, gained] = /^Radio link to a farm: Linux by default (\d+\.\d) Mbps, with a gateway that .* (\d+\.\d) Mbps\.$/.exec(finding);
  const mbps = (scheme) => parseFloat(shown[scheme][0]);
  assert.equal(without, mbps('E2E-CUBIC').toFixed(1));
  assert.equal(gained, Math.max(mbps('SNOOP'), mbps('SPLIT-BBR')).toFixed(1));
  // The finding and the whole chart are in view.
  for (const part of ['#finding', '#bars canvas']) {
    const box = await page.locator(part).first().boundingBox();
    assert.ok(box.y >= 0 && box.y + box.height <= 768, `${part}: ${JSON.stringify(box)}`);
  }
  // Without losses there is nothing to cure: the finding is computed.
  await go(page, `${server.url}#scenario=farm-radio&loss=0&size=4+MiB&runs=3`);
  const lossless = await page.locator('#finding').textContent();
  assert.notEqual(lossless, finding);
  assert.match(lossless, /no clear difference\.$|it is slower here\.$|Mbps\.$/);
  assert.ok(parseFloat(/default (\d+\.\d)/.exec(lossless)[1]) > 5 * Number(without), lossless);
  // The finding is absent if no such schemes are compared.
  await go(page, `${server.url}#scenario=farm-radio&schemes=E2E-CUBIC,E2E-BBR&size=1+MiB&runs=2`);
  assert.ok(await page.locator('#finding').isHidden());
  await go(page, at('schemes=E2E,LL-TCP-AWARE'));
  assert.ok(await page.locator('#finding').isHidden());
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('at 768 pixels the header is two lines at most, and no field cuts its text', async () => {
  for (const [width, words] of [[768, ''], [768, 'scenario=multilayer-web-udp-wan&runs=1&limit=20+s'], [1366, ''],
    [768, `scenario=wavelan-wan&runs=1&size=100+KiB&schemes=E2E&set=${encodeURIComponent('links.wireless.errors={model="list", drop=[{data=6}]}')}`]]) {
    const page = await open(chromium, `${server.url}#${words}`, { viewport: { width, height: 1024 } });
    const height = await page.$eval('header', (header) => header.getBoundingClientRect().height);
    assert.ok(height <= 90, `${width}: header of ${height} pixels`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    const cut = await page.$$eval('#settings input[type=text], #settings select, .pick select, .pick input', (fields) => fields.filter((field) => {
      const style = getComputedStyle(field);
      const ctx = document.createElement('canvas').getContext('2d');
      ctx.font = style.font;
      const text = field.tagName === 'SELECT' ? field.selectedOptions[0]?.label ?? '' : field.value || field.placeholder;
      const inner = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      // A select also contains its arrow.
      return ctx.measureText(text).width > inner - (field.tagName === 'SELECT' ? 16 : 0);
    }).map((field) => `${field.id}: ${field.value || field.placeholder}`));
    assert.deepEqual(cut, [], `${width} ${words}`);
    await page.close();
  }
});

test('moving a slider changes the numbers', async () => {
  const page = await open(chromium, at());
  const before = await numbers(page);
  assert.equal(Object.keys(before).length, 12);
  for (const [scheme, [mbps, ...rest]] of Object.entries(before)) {
    assert.match(mbps, /^\d\.\d{3} ± \d\.\d{3}$/, scheme);
    assert.equal(rest.at(-1), '6');
  }
  const stops = Number(await page.locator('#range-loss').getAttribute('max'));
  await slide(page, 'loss', stops - 4);
  assert.equal(await page.locator('#text-loss').inputValue(), '12 %');
  const after = await numbers(page);
  for (const scheme of ['E2E', 'LL-TCP-AWARE']) assert.ok(parseFloat(after[scheme][0]) < parseFloat(before[scheme][0]), scheme);
  assert.ok(page.url().includes('loss=12'), page.url());
  // Reset: the numbers are the same as before.
  await page.getByRole('button', { name: 'Frames lost as in the scenario' }).click();
  await settled(page);
  assert.deepEqual(await numbers(page), before);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('every control has an effect of its own', async () => {
  const link = at('schemes=E2E,LL-TCP-AWARE');
  const page = await open(chromium, link);
  const before = await numbers(page);
  const positions = { 'burst': 5, 'delay-wired': 19, 'delay-wireless': 19, 'rate': 5, 'queue': 1, 'window': 2, 'size': 1, 'seed': 5 };
  for (const [id, position] of Object.entries(positions)) {
    await slide(page, id, position);
    assert.notDeepEqual(await numbers(page), before, id);
    await go(page, link);
    assert.deepEqual(await numbers(page), before, `${id} is back`);
  }
  await page.close();
});

test('schemes are chosen one by one', async () => {
  const page = await open(chromium, at('schemes=E2E'));
  await page.locator('#none').click();
  await page.waitForFunction(() => document.getElementById('error-schemes').textContent.includes('choose at least one'));
  await page.getByLabel('SPLIT', { exact: true }).check();
  await page.getByLabel('LL', { exact: true }).check();
  await settled(page);
  assert.deepEqual(Object.keys(await numbers(page)), ['LL', 'SPLIT']);
  await page.locator('#usual').click();
  await settled(page);
  assert.equal(Object.keys(await numbers(page)).length, 12);
  await page.locator('#all').click();
  await settled(page);
  assert.equal(Object.keys(await numbers(page)).length, 28);
  await page.close();
});

test('modern endpoints have schemes of their own', async () => {
  const page = await open(chromium, `${server.url}#scenario=full-wifi&size=100+KiB&runs=3`);
  const names = ['E2E-CUBIC', 'E2E-BBR', 'E2E-BBR3', 'SNOOP', 'SPLIT-BBR'];
  assert.deepEqual(Object.keys(await numbers(page)), names);
  assert.equal(await page.locator('#remarks li').count(), 0);
  await go(page, `${server.url}#scenario=full-wifi&size=100+KiB&runs=3&set=${encodeURIComponent('tcp.congestion="reno"')}`);
  const remarks = await page.locator('#remarks').innerText();
  assert.match(remarks, /E2E-BBR and E2E-BBR3: the same runs as E2E-CUBIC, because the scenario sets tcp\.congestion/);
  assert.match(remarks, /E2E-CUBIC: the scenario sets tcp\.congestion, so it is modified/);
  await page.close();
});

test('bad input shows the one error beside its control, and good input clears it', async () => {
  const page = await open(chromium, at('schemes=E2E'));
  const enter = async (selector, text) => {
    await page.locator(selector).fill(text);
    await page.locator(selector).dispatchEvent('change');
  };
  const error = async (id, words) => {
    await page.waitForFunction(([id, words]) => document.getElementById(`error-${id}`).textContent.includes(words), [id, words]);
    assert.equal(await page.locator('p.error:not(:empty)').count(), 1);
  };
  await enter('#text-delay-wired', '12');
  await error('delay-wired', 'links.wired.delay: cannot be 12 (the unit is missing); give a time');
  assert.equal(await page.locator('#text-delay-wired').getAttribute('aria-invalid'), 'true');
  await enter('#text-delay-wired', '12 ms');
  await settled(page);
  assert.equal(await page.locator('p.error:not(:empty)').count(), 0);
  assert.equal(await page.locator('#text-delay-wired').getAttribute('aria-invalid'), null);
  await enter('#text-loss', '99 %');
  await error('loss', 'more than 50 %');
  await enter('#text-loss', '1 %');
  await page.locator('#more summary').click();
  await enter('#set', 'tcp.mms=512');
  await error('set', 'did you mean "mss"?');
  await enter('#set', 'tcp.mss=512');
  await settled(page);
  assert.equal(await page.locator('p.error:not(:empty)').count(), 0);
  await page.close();
});

test('a link brings back the state, the diagram included', async () => {
  const first = await open(chromium, at('schemes=E2E,LL-SMART-TCP-AWARE&loss=5+%25&burst=2&delay.wired=20+ms&window=16+KiB&seed=4&scheme=LL-SMART-TCP-AWARE&run=2&set=tcp.mss%3D1000'));
  await first.locator('#forward').click();
  await first.locator('#in').click();
  await first.locator('#forward').click();
  const url = first.url();
  const see = async (page) => ({
    numbers: await numbers(page), words: await page.locator('#words').textContent(), label: await page.locator('.lanes').getAttribute('aria-label'),
    scheme: await page.locator('#scheme').inputValue(), run: await page.locator('#run').inputValue(),
    texts: await page.$$eval('#controls input[type=text]', (inputs) => inputs.map((input) => input.value)), set: await page.locator('#set').inputValue(),
  });
  const seen = await see(first);
  assert.equal(seen.scheme, 'LL-SMART-TCP-AWARE');
  assert.equal(seen.run, '2');
  assert.equal(seen.set, 'tcp.mss=1000');
  assert.ok(seen.texts.includes('5 %') && seen.texts.includes('20 ms') && seen.texts.includes('16 KiB'), seen.texts.join());
  const second = await open(chromium, url);
  assert.deepEqual(await see(second), seen);
  await first.close();
  await second.close();
});

test('the downloaded scenario gives the command the same numbers', async () => {
  const page = await open(chromium, at('loss=4+%25&burst=3&queue=10+packets&seed=9&schemes=E2E,LL-TCP-AWARE,SPLIT'));
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#download').click()]);
  assert.equal(download.suggestedFilename(), 'wavelan-lan.toml');
  const folder = mkdtempSync(join(tmpdir(), 'lasthop-browser-'));
  try {
    const file = join(folder, 'downloaded.toml');
    await download.saveAs(file);
    const shown = await numbers(page);
    const told = JSON.parse(execFileSync(LASTHOP, ['compare', file, '--schemes', Object.keys(shown).join(','), '--json'], { encoding: 'utf8' }));
    assert.deepEqual(told.schemes.map((one) => one.scheme), Object.keys(shown));
    for (const { scheme, measures } of told.schemes) {
      const text = `${measures.throughput.mean.toFixed(3)} ± ${measures.throughput.ci95.toFixed(3)}`;
      const counts = ['rtt_p50', 'rtt_p95', 'queue_drops', 'timeouts', 'relay_timeouts', 'source_retransmissions', 'local_retransmissions', 'dupacks_suppressed'].map((name) => measures[name].mean.toFixed(1));
      assert.deepEqual(shown[scheme], [text, ...counts, '6'], scheme);
    }
    // `run` accepts it too, under the displayed scheme.
    const run = JSON.parse(execFileSync(LASTHOP, ['run', file, '--json'], { encoding: 'utf8' }));
    assert.equal(run.scheme, 'LL-TCP-AWARE');
  } finally {
    rmSync(folder, { recursive: true });
  }
  await page.close();
});

test('the diagram steps, finds, zooms and plays', async () => {
  const page = await open(chromium, at('scheme=LL-TCP-AWARE&loss=5+%25&at=0'));
  const words = () => page.locator('#words').textContent();
  const moment = async () => Number(await page.locator('#position').inputValue());
  const find = async (what) => { await page.locator('#find').selectOption(what); await page.locator('#seek').click(); return words(); };
  assert.match(await words(), /^0\.000000 s: sent: source → base: handshake/);
  await page.locator('#forward').click();
  const one = await moment();
  assert.ok(one > 0);
  await page.locator('#back').click();
  assert.equal(await moment(), 0);
  assert.match(await find('loss'), /lost on the link/);
  assert.ok(await page.locator('.arrow.lost .cross').count() > 0);
  assert.match(await find('suppressed'), /suppressed by the base station/);
  assert.ok(await page.locator('.arrow.suppressed .stop').count() > 0);
  assert.match(await find('local'), /local retransmission/);
  await page.locator('#forward').click();
  assert.ok(await page.locator('.arrow.local-retransmission').count() > 0);
  const legend = await page.locator('.diagram-legend').innerText();
  for (const entry of ['local retransmission', 'duplicate ACK suppressed', 'lost']) assert.ok(legend.includes(entry), entry);
  const arrows = () => page.locator('#stage .arrow').count();
  const before = await arrows();
  await page.locator('#out').click();
  await page.locator('#out').click();
  assert.ok(await arrows() > before);
  const start = await moment();
  await page.locator('#play').click();
  await page.waitForFunction((start) => Number(document.getElementById('position').value) > start, start);
  assert.equal(await page.locator('#play').getAttribute('aria-label'), 'Pause');
  await page.locator('#play').click();
  const paused = await moment();
  await page.waitForTimeout(150);
  assert.equal(await moment(), paused);
  assert.match(await find('timeout'), /there is no further event of this kind: a timeout|timeout/);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('reduced motion shows steps', async () => {
  const page = await open(chromium, at('scheme=LL&at=0'), { reducedMotion: 'reduce' });
  await page.locator('#speed').selectOption('5');
  await page.locator('#play').click();
  // Collect frames at which the picture changed. The player requested its frames first, so each of ours sees its
  // effect.
  const times = await page.evaluate(() => new Promise((done) => {
    const position = document.getElementById('position');
    const [changes, start] = [[], performance.now()];
    let shown = position.value;
    const look = (now) => {
      if (position.value !== shown) changes.push(now);
      shown = position.value;
      if (changes.length < 5 && now - start < 20_000) requestAnimationFrame(look); else done(changes);
    };
    requestAnimationFrame(look);
  }));
  await page.locator('#play').click();
  assert.equal(times.length, 5);
  for (const [index, time] of times.slice(1).entries()) assert.ok(time - times[index] >= 89, `pictures at ${times} ms`);
  await page.close();
});

test('the keyboard is enough', async () => {
  const page = await open(chromium, at('schemes=E2E,LL'));
  const before = await numbers(page);
  // Reach the loss slider from the top with the tab key alone.
  let reached = false;
  for (let press = 0; press < 15 && !reached; press++) {
    await page.keyboard.press('Tab');
    reached = await page.evaluate(() => document.activeElement.id === 'range-loss');
  }
  assert.ok(reached, 'the slider is reached');
  assert.ok(await page.evaluate(() => document.activeElement.matches(':focus-visible')));
  for (let press = 0; press < 6; press++) await page.keyboard.press('ArrowRight');
  await settled(page);
  assert.notDeepEqual(await numbers(page), before);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'range-loss', 'the focus stays');
  // Select a scheme in the table and step the diagram with the keyboard.
  await page.locator('#measures button', { hasText: /^E2E$/ }).focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.match(await page.locator('#diagram-heading').textContent(), /E2E$/);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'E2E');
  await page.locator('#stage').focus();
  const moment = async () => Number(await page.locator('#position').inputValue());
  await page.keyboard.press('Home');
  const start = await moment();
  await page.keyboard.press('ArrowRight');
  assert.ok(await moment() > start);
  await page.keyboard.press('Space');
  await page.waitForFunction(() => document.getElementById('play').getAttribute('aria-label') === 'Pause');
  await page.keyboard.press('Space');
  await page.waitForFunction(() => document.getElementById('play').getAttribute('aria-label') === 'Play');
  await page.close();
});

for (const [name, options] of [['on a screen, light', {}], ['on a phone, dark', { viewport: { width: 390, height: 844 }, colorScheme: 'dark' }]]) {
  test(`axe finds nothing serious ${name}`, async () => {
    const page = await open(chromium, at('scheme=LL-TCP-AWARE'), { bypassCSP: true, ...options });
    for (const summary of await page.locator('.chart-numbers > summary').all()) await summary.click();
    // Each chart's numbers are available as a table.
    for (const chart of ['#sequence', '#window', '#diagram']) await page.locator(`${chart} tbody tr`).nth(5).waitFor();
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
    assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`), []);
    await page.close();
  });
}

test('a phone need not scroll sideways', async () => {
  for (const width of [320, 390]) {
    const page = await open(chromium, at('scheme=SPLIT-SMART'), { viewport: { width, height: 800 }, hasTouch: true, isMobile: true });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    assert.ok(await page.locator('#bars canvas').isVisible());
    await page.close();
  }
});

test('every scenario shows something', async () => {
  const page = await open(chromium, at());
  const names = await page.$$eval('#scenario option', (options) => options.map((option) => option.value));
  assert.ok(names.length >= 14);
  // Ten thousand flows take too long here; all others are tested.
  for (const name of names.filter((name) => name !== 'many-flows' && !name.includes('web'))) {
    await go(page, `${server.url}#scenario=${name}&runs=2&size=100+KiB&schemes=E2E,LL-TCP-AWARE`);
    assert.equal(await page.locator('p.error:not(:empty)').count(), 0, name);
    assert.ok(await page.locator('#stage .arrow').count() > 0, name);
  }
  await go(page, `${server.url}#scenario=multilayer-web-lan&runs=2&limit=20+s`);
  assert.equal(Object.keys(await numbers(page)).length, 4);
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('a scenario of one\'s own is offered first', { skip: ALONE && 'files come from the command line' }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lasthop-browser-'));
  const file = join(folder, 'mine.toml');
  const text = execFileSync(LASTHOP, ['explain', 'wavelan-wan', '--set', 'flows.bulk.size=100 KiB', '--set', 'runs=2'], { encoding: 'utf8' });
  writeFileSync(file, text.replace(/^title = .*$/m, 'title = "Mine"'));
  const own = await serve([file]);
  try {
    const page = await open(chromium, own.url);
    assert.equal(await page.locator('#scenario').inputValue(), file);
    assert.equal(await page.locator('#title').textContent(), 'Mine');
    assert.equal(Object.keys(await numbers(page)).length, 12);
    await page.close();
  } finally {
    own.stop();
    rmSync(folder, { recursive: true });
  }
});
