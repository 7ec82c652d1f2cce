// Tests of the page's explanations, and that it never mislabels numbers.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SMALL, browser, go, headings, numbers, open, serve, settled } from './page.js';

let chromium;
let server;
before(async () => { [chromium, server] = await Promise.all([browser(), serve()]); });
after(async () => { await chromium?.close(); server?.stop(); });

const at = (words = '') => `${server.url}#${SMALL}${words && '&'}${words}`;
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** Returns the chart's pixels. */
const ink = (page) => page.$eval('#bars canvas', (canvas) => canvas.toDataURL());

test('on a phone the chart comes first and stays in sight of every slider', async () => {
  const page = await open(chromium, at(), PHONE);
  const top = await page.$eval('#bars canvas', (canvas) => canvas.getBoundingClientRect().top);
  assert.ok(top > 0 && top < 250, `${top}`);
  const ids = await page.$$eval('#controls input[type=range]', (ranges) => ranges.map((range) => range.id));
  assert.ok(ids.length >= 10);
  for (const id of ids) {
    // Scroll like a finger, until the slider is in the lower half.
    await page.locator(`#${id}`).evaluate((range) => scrollBy(0, range.getBoundingClientRect().top - 600));
    const see = await page.evaluate((id) => {
      const chart = document.querySelector('#bars canvas').getBoundingClientRect();
      const range = document.getElementById(id).getBoundingClientRect();
      const hit = document.elementFromPoint(range.left + range.width / 2, range.top + range.height / 2);
      return { top: chart.top, bottom: chart.bottom, slider: range.top, free: hit?.id === id };
    }, id);
    assert.ok(see.top >= 0 && see.bottom < see.slider && see.free, `${id}: ${JSON.stringify(see)}`);
  }
  const before = await ink(page);
  await page.locator('#range-window').evaluate((range) => { range.value = '2'; range.dispatchEvent(new Event('input', { bubbles: true })); });
  await settled(page);
  assert.ok(await ink(page) !== before, 'the chart moves');
  await page.close();
});

test('under an error the numbers are dimmed, and the message is in sight', async () => {
  for (const options of [{}, PHONE]) {
    const page = await open(chromium, at(), options);
    const opacity = () => page.$eval('#bars', (bars) => Number(getComputedStyle(bars).opacity));
    const before = await numbers(page);
    assert.equal(await opacity(), 1);
    await page.locator('#text-loss').fill('100 %');
    await page.locator('#text-loss').dispatchEvent('change');
    await page.waitForFunction(() => document.getElementById('notice').textContent.includes('more than 50 %'));
    assert.match(await page.locator('#notice').textContent(), /are outdated/);
    assert.ok(await opacity() < 0.5 && await page.$eval('#numbers .ages', (table) => Number(getComputedStyle(table).opacity)) < 0.5);
    assert.equal(await page.locator('#status').textContent(), '');
    const box = await page.locator('#notice').boundingBox();
    assert.ok(box.y >= 0 && box.y < page.viewportSize().height, JSON.stringify(box));
    assert.deepEqual(await numbers(page), before);
    await page.locator('#text-loss').fill('2 %');
    await page.locator('#text-loss').dispatchEvent('change');
    await settled(page);
    assert.equal(await page.locator('#notice').textContent(), '');
    await page.waitForFunction(() => getComputedStyle(document.getElementById('bars')).opacity === '1');
    assert.notDeepEqual(await numbers(page), before);
    await page.close();
  }
});

test('numbers of different numbers of runs never stand beside each other', async () => {
  const page = await open(chromium, at('schemes=E2E,LL'));
  await page.evaluate(() => {
    globalThis.seen = [];
    new MutationObserver(() => {
      const runs = [...document.querySelectorAll('#measures tbody tr')].map((row) => row.cells[row.cells.length - 1].textContent);
      globalThis.seen.push(runs.join());
    }).observe(document.querySelector('#measures tbody'), { subtree: true, childList: true, characterData: true });
  });
  await page.locator('#text-runs').fill('60');
  await page.locator('#text-runs').dispatchEvent('change');
  await settled(page);
  await page.locator('#usual').click();
  await settled(page);
  const seen = await page.evaluate(() => [...new Set(globalThis.seen)].map((runs) => runs.split(',')));
  assert.ok(seen.length >= 3, JSON.stringify(seen));
  // Missing numbers are shown as a dash.
  for (const runs of seen) assert.ok(new Set(runs.filter((text) => text !== '–')).size <= 1, runs.join());
  assert.equal(seen.at(-1)[0], '60');
  await page.close();
});

test('each scheme is explained with a picture, by keyboard and by touch', async () => {
  const page = await open(chromium, at('schemes=E2E'), { ...PHONE, reducedMotion: 'reduce' });
  const schemes = await page.$$eval('#schemes input', (boxes) => boxes.map((box) => box.value));
  assert.equal(schemes.length, 28);
  const told = new Set();
  for (const scheme of schemes) {
    const why = page.getByRole('button', { name: `What ${scheme} does`, exact: true });
    const card = page.locator(`#${await why.getAttribute('aria-controls')}`);
    assert.ok(await card.isHidden());
    if (scheme.startsWith('LL')) await why.tap(); else { await why.focus(); await page.keyboard.press('Enter'); }
    assert.equal(await why.getAttribute('aria-expanded'), 'true');
    assert.ok(await card.isVisible());
    const box = await why.boundingBox();
    assert.ok(box.width >= 24 && box.height >= 24);
    const words = (await card.locator('p').textContent()).slice(scheme.length + 2);
    assert.equal(words.match(/\.(?= |$)/g).length, 2, words);
    told.add(words);
    assert.match(await card.getByRole('img').getAttribute('aria-label'), /^Where .* acts\. Lost data is retransmitted/);
    await why.press('Enter');
    assert.ok(await card.isHidden());
  }
  assert.equal(told.size, 26, 'Reno/Raw and SACK/Raw are other names');
  // Nodes that act, in two of the cards.
  const acts = (scheme) => page.$$eval(`#card-${scheme} .node`, (nodes) => nodes.map((node) => node.classList.contains('acts')));
  assert.deepEqual(await acts('E2E'), [true, false, false]);
  assert.deepEqual(await acts('LL-TCP-AWARE'), [false, true, false]);
  // Modern receivers report what they have (SACK).
  assert.deepEqual([await acts('E2E-BBR'), await acts('SNOOP'), await acts('SPLIT-BBR')], [[true, false, true], [false, true, true], [false, true, true]]);
  await page.close();
});

test('a line shows what the path carries without loss', async () => {
  const page = await open(chromium, at('schemes=E2E,LL&loss=0'));
  const [lossless] = (await numbers(page)).E2E;
  const line = async () => /no loss \(E2E\): (\d\.\d{3}) Mbps/.exec(await page.locator('#bars .chart-legend').textContent())[1];
  // Six runs against one: the phases of the clocks differ.
  assert.ok(Math.abs(Number(await line()) - parseFloat(lossless)) < 0.05, `${await line()} ${lossless}`);
  const of = await line();
  await go(page, at('schemes=E2E,LL&loss=10+%25'));
  assert.equal(await line(), of);
  assert.match(await page.locator('#bars [role=img]').getAttribute('aria-label'), /a line: no loss/);
  await page.close();
});

test('two schemes stand beside each other, at one moment and on one scale', async () => {
  const page = await open(chromium, at('scheme=E2E&beside=LL-TCP-AWARE&loss=5+%25'));
  assert.equal(await page.locator('#beside').inputValue(), 'LL-TCP-AWARE');
  for (const id of ['stage', 'stage-beside']) assert.ok(await page.locator(`#${id} .arrow`).count() > 0, id);
  assert.ok(await page.locator('#stage .arrow.local-retransmission').count() === 0);
  const boxes = await Promise.all(['#sequence canvas', '#sequence-beside canvas', '#stage', '#stage-beside'].map((part) => page.locator(part).boundingBox()));
  assert.ok(boxes[0].y === boxes[1].y && boxes[0].x < boxes[1].x && boxes[0].height === boxes[1].height, 'plots');
  assert.ok(boxes[2].y === boxes[3].y && boxes[2].x < boxes[3].x, 'diagrams');
  await page.locator('#find').selectOption('local');
  await page.locator('#seek').click();
  assert.match(await page.locator('#words-beside').textContent(), /local retransmission/);
  const moments = await Promise.all(['#words', '#words-beside'].map(async (part) => (await page.locator(part).textContent()).slice(0, 9)));
  assert.equal(moments[0], moments[1]);
  // Zooming applies to all: dragging across the sequence plot also changes the window plot beside it.
  const pictures = () => page.$$eval('.plots canvas', (canvases) => canvases.map((canvas) => canvas.toDataURL()));
  await page.locator('#sequence .u-over').scrollIntoViewIfNeeded();
  const whole = await pictures();
  const box = await page.locator('#sequence .u-over').boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 4 });
  await page.mouse.up();
  await page.waitForTimeout(100);
  (await pictures()).forEach((picture, index) => assert.ok(picture !== whole[index], `plot ${index}`));
  // Back to a single scheme.
  await page.locator('#beside').selectOption('');
  await settled(page);
  assert.ok(await page.locator('#stage-beside').isHidden() && await page.locator('#sequence-beside').isHidden());
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('the tour leads from one loss to the cure, by links that can be sent on', async () => {
  const page = await open(chromium, at(), { reducedMotion: 'reduce' });
  await page.getByRole('link', { name: /Take the tour/ }).click();
  const title = () => page.locator('#tour-title').textContent();
  const arrive = async (step) => {
    await page.waitForFunction((step) => document.querySelector('[data-part=count]').textContent === `Step ${step} of 5`, step);
    await settled(page);
  };
  const titles = [];
  const links = [];
  const expected = [/lost on the link/, /retransmission by the source.*loss recovery begins/, /timeout/, /retransmission by the source/, /./];
  for (let step = 1; step <= 5; step++) {
    await arrive(step);
    assert.match(await page.locator('#words').textContent(), expected[step - 1], `step ${step}`);
    titles.push(await title());
    links.push(page.url());
    if (step < 5) await page.locator('[data-part=next]').click();
  }
  assert.equal(new Set(titles).size, 5);
  assert.deepEqual(Object.keys(await numbers(page)), ['E2E-CUBIC', 'E2E-BBR', 'SNOOP', 'SPLIT-BBR']);
  assert.ok(await page.locator('[data-part=next]').isHidden());
  for (let step = 4; step >= 1; step--) { await page.goBack(); await arrive(step); assert.equal(await title(), titles[step - 1]); }
  await page.goForward();
  await arrive(2);
  // Each link alone gives the same, with the losses that the text describes: one timeout with the timers of 1997, none
  // with Linux's.
  const timeouts = [{ 'E2E-CUBIC': 0 }, { 'E2E-CUBIC': 0 }, { E2E: 1, 'E2E-CUBIC': 0 }, { 'E2E-CUBIC': 0, SNOOP: 0 }];
  const lost = [1, 1, 3, 3];
  for (const [index, link] of links.slice(0, 4).entries()) {
    await go(page, link);
    assert.equal(await title(), titles[index]);
    const shown = await numbers(page);
    const at = (await headings(page)).indexOf('timeouts') - 1;
    assert.deepEqual(Object.fromEntries(Object.entries(shown).map(([scheme, cells]) => [scheme, Number(cells[at])])), timeouts[index], titles[index]);
    await page.locator('#out').click({ clickCount: 12 });
    await page.locator('#stage').press('End');
    assert.equal(await page.locator('#stage .arrow.lost').count(), lost[index], titles[index]);
  }
  const heads = await headings(page);
  const repaired = (await numbers(page)).SNOOP;
  assert.equal(repaired[heads.indexOf('source rtx') - 1], '0.0', 'the sender never notices');
  assert.equal(repaired[heads.indexOf('local rtx') - 1], '3.0');
  await page.getByRole('link', { name: 'End the tour' }).click();
  // The page handles a new fragment after the click; until then it has the answers for the old one.
  await page.locator('#tour').waitFor({ state: 'hidden' });
  await settled(page);
  assert.ok(!page.url().includes('tour') && page.url().includes('beside'));
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('the tour shows a stall of 1997 with the timers of 1997, and says whose they are', async () => {
  const page = await open(chromium, at(), { reducedMotion: 'reduce', viewport: { width: 1366, height: 768 } });
  await page.locator('#tour-start').click();
  const next = async (step) => {
    await page.locator('[data-part=next]').click();
    await page.waitForFunction((step) => document.querySelector('[data-part=count]').textContent === `Step ${step} of 5`, step);
    await settled(page);
  };
  await page.waitForFunction(() => document.querySelector('[data-part=count]').textContent === 'Step 1 of 5');
  await next(2);
  await next(3);
  assert.equal(await page.locator('#trace-status').textContent(), 'E2E: 4.4BSD\'s timers (ticks of 500 ms), timeout of at least 1 s. E2E-CUBIC: Linux\'s timers, timeout of at least 200 ms.');
  // No constant that was fitted to a study.
  assert.ok(!decodeURIComponent(page.url()).includes('rto_min'), page.url());
  // The longest silence of the sender has the order of the timers, not five times that.
  await page.locator('#sequence summary').click();
  // The table is filled after it opens.
  await page.waitForFunction(() => document.querySelectorAll('#sequence tbody tr').length > 10);
  const silence = await page.locator('#sequence tbody tr').evaluateAll((rows) => {
    const times = rows.map((row) => Number(row.cells[1].textContent));
    return Math.max(...times.slice(1).map((time, at) => time - times[at]));
  });
  assert.ok(silence > 0.8 && silence < 2.2, `${silence} s`);
  // In step 4 the diagrams are in view when they arrive.
  await next(4);
  await page.waitForFunction(() => {
    const box = document.getElementById('stage').getBoundingClientRect();
    return box.top >= 0 && box.bottom <= innerHeight;
  });
  const other = await page.locator('#stage-beside').boundingBox();
  assert.ok(other.y >= 0 && other.y + other.height <= 768, JSON.stringify(other));
  await page.close();
});

test('Back undoes a choice', async () => {
  const page = await open(chromium, at('schemes=E2E,LL'));
  const before = await numbers(page);
  await page.getByLabel('SPLIT', { exact: true }).check();
  await settled(page);
  assert.equal(Object.keys(await numbers(page)).length, 3);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll('#measures tbody tr').length === 2);
  await settled(page);
  assert.deepEqual(await numbers(page), before);
  await page.goForward();
  await page.waitForFunction(() => document.querySelectorAll('#measures tbody tr').length === 3);
  await page.close();
});

test('a slider takes over from a key that was set', async () => {
  const page = await open(chromium, at(`schemes=E2E&set=${encodeURIComponent('links.wireless.errors={model="list", drop=[{data=20}]}')}`));
  const before = await numbers(page);
  await page.locator('#range-loss').evaluate((range) => { range.value = range.max; range.dispatchEvent(new Event('input', { bubbles: true })); });
  await settled(page);
  assert.equal(await page.locator('#set').inputValue(), '');
  assert.notDeepEqual(await numbers(page), before);
  await page.close();
});

test('schemes that the scenario makes the same are marked', async () => {
  const page = await open(chromium, at(`schemes=E2E,E2E-IETF-SACK,LL&set=${encodeURIComponent('tcp.recovery="sack"')}`));
  const remarks = await page.locator('#remarks').innerText();
  assert.match(remarks, /E2E: the same run as E2E-IETF-SACK, because the scenario sets tcp\.recovery/);
  assert.match(remarks, /LL: the scenario sets tcp\.recovery, so the sender repairs as in E2E-IETF-SACK/);
  assert.equal(await page.locator('tr.same').count(), 1);
  assert.match(await page.locator('tr.same th').textContent(), /E2E = E2E-IETF-SACK/);
  await go(page, at('schemes=E2E,E2E-IETF-SACK,LL'));
  assert.equal(await page.locator('#remarks li').count(), 0);
  await page.close();
});

test('what is unfinished, and a relay\'s timeouts, have their columns', async () => {
  const page = await open(chromium, at('schemes=E2E,LL'));
  assert.deepEqual((await headings(page)).slice(2), ['rtt p50 ms', 'rtt p95 ms', 'timeouts', 'source rtx', 'local rtx', 'dupacks suppressed', 'runs']);
  await go(page, at(`schemes=E2E,SPLIT&loss=10+%25&set=${encodeURIComponent('limit=20 s')}&size=1+MiB`));
  const heads = await headings(page);
  assert.ok(heads.includes('relay timeouts') && heads.includes('unfinished'), heads.join());
  const { E2E, SPLIT } = await numbers(page);
  assert.ok(Number(SPLIT[heads.indexOf('relay timeouts') - 1]) > 0, SPLIT.join());
  assert.equal(E2E[heads.indexOf('unfinished') - 1], '6 of 6');
  assert.match(await page.locator('#remarks').innerText(), /incomplete at the time limit of 20 s: 6 of 6 under E2E/);
  // Every heading is explained.
  const terms = await page.$$eval('#columns dt', (terms) => terms.map((term) => term.textContent));
  for (const head of heads.slice(1)) assert.ok(terms.includes(head), head);
  await page.close();
});

test('a moment at which nothing is on its way says so', async () => {
  const page = await open(chromium, at('scheme=E2E&loss=10+%25&at=0'));
  await page.locator('#find').selectOption('timeout');
  await page.locator('#seek').click();
  assert.match(await page.locator('#words').textContent(), /timeout/);
  // Packets sent before the timeout are in view.
  assert.ok(await page.locator('#stage .arrow').count() > 1);
  await page.locator('#back').click();
  await page.locator('#position').evaluate((range) => { range.value = String(Number(range.value) + 1e6); range.dispatchEvent(new Event('input', { bubbles: true })); });
  for (let click = 0; click < 8; click++) await page.locator('#in').click();
  assert.match(await page.locator('#stage .silence').allTextContents().then((lines) => lines.join(' ')), /Nothing is in flight\. The last packet arrived .* ago\. The next one is sent in .*s\./);
  await page.close();
});

test('of many flows one is shown, and the page says which', async () => {
  const page = await open(chromium, `${server.url}#scenario=many-flows&count=500&runs=1&schemes=E2E,LL-TCP-AWARE`);
  assert.match(await page.locator('#trace-status').textContent(), /^Showing one of 500 flows: /);
  // The record is complete: one of all flows would end before that.
  assert.doesNotMatch(await page.locator('#trace-status').textContent(), /A long run/);
  assert.ok(await page.locator('#stage .arrow').count() > 0);
  await page.close();
});
