// Tests of the course in the page without a server, which LASTHOP_PAGE names (`make page`): opened as files in a real browser.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ALONE, browser } from './page.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const COURSE = join(ALONE, 'course');
const PAGES = readdirSync(COURSE, { recursive: true }).filter((name) => name.endsWith('.html')).sort();
const LABS = PAGES.filter((name) => /^\d\d-/.test(name));
/** Links of all labs into the page: `lab`, `view`, `link`. */
const VIEWS = JSON.parse(execFileSync('python3', [fileURLToPath(new URL('../../../../scripts/course.py', import.meta.url)), '--views'], { encoding: 'utf8' }));

let chromium;
before(async () => { chromium = await browser(); });
after(async () => { await chromium?.close(); });

/** Opens a page of the folder. @param {string} name @param {object} [options] */
async function open(name, options = {}) {
  const page = await chromium.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') page.errors.push(message.text()); });
  page.asked = [];
  page.on('request', (request) => page.asked.push(request.url()));
  await page.goto(pathToFileURL(join(ALONE, name.split('#')[0])).href + (name.includes('#') ? `#${name.split('#')[1]}` : ''));
  return page;
}

/** Asserts that a page loaded only files of the folder, without an error. */
function asksNobody(page) {
  const folder = pathToFileURL(`${ALONE}/`).href;
  assert.deepEqual(page.asked.filter((url) => !url.startsWith(folder) && !url.startsWith('blob:null/')), []);
  assert.deepEqual(page.errors, []);
}

test('ten labs, each with a page of solutions, are reached from the first page', async () => {
  assert.equal(LABS.length, 10);
  const page = await open('index.html#scenario=wavelan-lan&size=100+KiB&runs=1');
  await page.locator('.ways a', { hasText: 'Course' }).click();
  assert.deepEqual(await page.$$eval('main table a', (links) => links.map((link) => link.getAttribute('href'))), LABS);
  for (const name of LABS) assert.ok(PAGES.includes(`solutions/${name}`), name);
  await page.locator('main table a').first().click();
  await page.locator('form.answer').first().waitFor();
  asksNobody(page);
  await page.close();
});

test('every link of the course leads to a file of the folder', async () => {
  for (const name of PAGES) {
    const page = await open(`course/${name}`);
    const links = await page.$$eval('a[href], img[src]', (found) => found.map((one) => one.href ?? one.src));
    assert.ok(links.length > 3, name);
    for (const link of links) {
      assert.ok(link.startsWith('file:'), `${name}: ${link}`);
      assert.ok(existsSync(fileURLToPath(link.replace(/#.*/, ''))), `${name}: ${link}`);
    }
    // A link within the page has a target.
    const missing = await page.$$eval('a[href^="#"]', (found) => found.map((one) => one.hash).filter((hash) => !document.querySelector(hash)));
    assert.deepEqual(missing, [], name);
    assert.ok(await page.$$eval('img', (images) => images.every((image) => image.naturalWidth > 0)), name);
    asksNobody(page);
    await page.close();
  }
});

for (const { lab, view, link } of VIEWS) {
  test(`${lab}: the link ${view} opens what it says`, async () => {
    const page = await open(link);
    const words = new URLSearchParams(link.split('#')[1]);
    if (link.startsWith('cure.html')) {
      for (const [key, text] of words) if (await page.locator(`input#${key}`).count()) assert.equal(await page.locator(`input#${key}`).inputValue(), text, key);
      assert.deepEqual(await page.$$eval('#for input:checked', (boxes) => boxes.map((box) => box.value)), words.get('for').split(','));
    } else {
      await page.waitForFunction(() => document.getElementById('throughput').dataset.firstMs, undefined, { timeout: 60_000 });
      await page.waitForFunction(() => document.getElementById('shown').dataset.drawn, undefined, { timeout: 60_000 });
      const shown = {
        scenario: await page.locator('#scenario').inputValue(),
        schemes: (await page.$$eval('#schemes input:checked', (boxes) => boxes.map((box) => box.value))).sort().join(),
        scheme: await page.locator('#scheme').inputValue(),
        beside: await page.locator('#beside').inputValue(),
      };
      assert.deepEqual(shown, { scenario: words.get('scenario'), schemes: words.get('schemes').split(',').sort().join(), scheme: words.get('scheme'), beside: words.get('beside') ?? '' });
      assert.deepEqual((await page.locator('#set').inputValue()).split('\n').filter(Boolean), words.getAll('set'));
      for (const [key, text] of words) {
        if (['scenario', 'schemes', 'scheme', 'beside', 'set', 'find', 'span', 'at'].includes(key)) continue;
        assert.equal(await page.locator(`#text-${key.replace(/[^a-z0-9]/gi, '-')}`).inputValue(), text, key);
      }
      assert.equal(await page.locator('#notice').textContent(), '');
    }
    asksNobody(page);
    await page.close();
  });
}

/** Answers a question and returns the verdict. @param {import('playwright-core').Locator} form @param {string} text */
async function answer(form, text) {
  if (await form.getAttribute('data-kind') === 'choice') await form.locator(`input[value="${text}"]`).check();
  else await form.locator('input').fill(text);
  await form.locator('button').click();
  return form.locator('.verdict').textContent();
}

test('each question says right, near or wrong by its interval', async () => {
  let questions = 0;
  for (const name of LABS) {
    const page = await open(`course/${name}`);
    const forms = await page.locator('form.answer').all();
    assert.ok(forms.length >= 3 && forms.length <= 6, name);
    for (const form of forms) {
      const { kind, right, near, hint, unit, question } = await form.evaluate((one) => ({ ...one.dataset }));
      assert.equal(await form.evaluate((one) => { one.requestSubmit(); return one.querySelector('.verdict').textContent; }), kind === 'choice' ? 'Choose an answer first.' : 'Enter a number first.');
      if (kind === 'choice') {
        const letters = await form.locator('input').evaluateAll((boxes) => boxes.map((box) => box.value));
        assert.ok(letters.length >= 3 && letters.includes(right), question);
        for (const letter of letters) assert.equal(await answer(form, letter), letter === right ? 'Right.' : `Wrong. ${hint}`);
        await answer(form, right);
      } else {
        const [low, high] = right.split(' ').map(Number);
        const [least, most] = near.split(' ').map(Number);
        assert.equal(await answer(form, String(most * 2 + 10)), `Wrong. ${hint}`, question);
        assert.equal(await answer(form, String((high + most) / 2)), `Near, but not exact enough. ${hint}`, question);
        assert.equal(await answer(form, String((least + low) / 2)), `Near, but not exact enough. ${hint}`, question);
        assert.equal(await answer(form, `${(low + high) / 2} ${unit}`), 'Right.', question);
      }
      questions += 1;
    }
    assert.equal(await page.locator('#score').textContent(), `${forms.length} of ${forms.length} questions answered right`);
    asksNobody(page);
    await page.close();
  }
  assert.ok(questions >= 40, `${questions}`);
});

test('the answers of the solutions are right, and answers that cannot be read are explained', async () => {
  for (const name of LABS) {
    const solution = await open(`course/solutions/${name}`);
    const told = await solution.$$eval('h2 + p > strong:first-child', (found) => found.map((one) => one.textContent));
    await solution.close();
    const page = await open(`course/${name}`);
    const forms = await page.locator('form.answer').all();
    assert.equal(told.length, forms.length, name);
    for (const [at, form] of forms.entries()) assert.equal(await answer(form, told[at].replace(/\)$/, '')), 'Right.', `${name}: ${told[at]}`);
    await page.close();
  }
  const page = await open(`course/${LABS[1]}`);
  const form = page.locator('form.answer').first();
  assert.match(await answer(form, '1,55'), /^Use a point as the decimal separator/);
  assert.match(await answer(form, 'fast'), /^Enter a number in Mbps/);
  assert.match(await answer(form, '1550 kbps'), /^The answer is asked in Mbps/);
  // A changed answer has no verdict until it is checked.
  await form.locator('input').fill('1');
  assert.equal(await form.locator('.verdict').textContent(), '');
  await page.close();
});

test('the keyboard is enough to answer', async () => {
  const page = await open(`course/${LABS[0]}`);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.locator('#answer-1-1').focus();
  await page.keyboard.type('56472');
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('#verdict-1-1').textContent(), 'Right.');
  await page.locator('form[data-question="1.3"] input').first().focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('#verdict-1-3').textContent(), 'Right.');
  await page.close();
});

test('the measurement of the last lab is read in the page', async () => {
  const { link } = VIEWS.at(-1);
  const page = await open(link);
  await page.locator('#measurement').setInputFiles(['probe.json', 'down.csv', 'up.csv'].map((name) => join(COURSE, 'data', name)));
  await page.locator('#link-words:not(:empty)').waitFor({ timeout: 60_000 });
  // What questions 10.1 to 10.3 ask for.
  for (const words of [/39 of 4800 packets lost/, /runs of 1\.00 on average, at most 1/, /nothing arrives for 0\.11 s at each change/]) {
    assert.match(await page.locator('#told').textContent(), words);
  }
  assert.ok(await page.locator('#question').isVisible());
  asksNobody(page);
  await page.close();
});

for (const width of [390, 768, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`axe finds nothing in the course at ${width} pixels, ${colorScheme}`, async () => {
      for (const name of PAGES) {
        const page = await open(`course/${name}`, { viewport: { width, height: 900 }, colorScheme });
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, name);
        // Verdicts are part of the page.
        for (const form of await page.locator('form.answer').all()) await form.evaluate((one) => one.requestSubmit());
        await page.evaluate(AXE);
        const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        assert.deepEqual(violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map((node) => node.html).join(' ')}`), []);
        await page.close();
      }
    });
  }
}
