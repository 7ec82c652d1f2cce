// Tests of the page of running daemons, in a real browser. The daemons are stand-ins with the protocol of the control socket.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { browser, start } from './page.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

/** Answers status requests on a socket. */
class StandIn {
  constructor(path, answer) {
    this.path = path;
    this.answer = answer;
    this.asked = 0;
    this.requests = new Set();
  }

  start() {
    this.server = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (line) => {
        this.requests.add(String(line).trim());
        this.asked += 1;
        socket.write(`${JSON.stringify({ ok: true, result: this.answer(this.asked) })}\n`);
      });
    });
    return new Promise((resolve) => this.server.listen(this.path, resolve));
  }

  stop() {
    return new Promise((resolve) => this.server.close(resolve));
  }
}

/** State of the second path, which the tests change. */
let lte = 'repairing';
let device = 'lasthop0';

const path = (name, state, seconds, share) => ({
  name, address: '192.0.2.7:51900', rate: 3e7, finds_rate: true, state, rtt_seconds: 0.0412 + 0.001 * (seconds % 5), loss: 0.02, heard_seconds: 0.2,
  frames: { packets: 9, bytes: share * 250000 * seconds }, repair: { packets: 1, bytes: share * 25000 * seconds },
});
const tunnel = (seconds) => ({
  version: '0.1.0', uptime_seconds: 2 * seconds, worker: { pid: 7, restarts: 0 }, reloads: 1, device, mode: 'tun', listen: '0.0.0.0:51900',
  handshakes: 1, replayed: 2,
  peers: [{
    name: 'hub <b>&', up: true, up_seconds: 2 * seconds, heard_seconds: 0.2, address: '192.0.2.7:51900', mtu: 1442, rate: 6e7, state: 'repairing', rtt_seconds: 0.0412, loss: 0.02,
    paths: [path('dish', 'repairing', seconds, 3), path('lte', lte, seconds, 1)],
    sent: { packets: 9, bytes: 1e6 * seconds }, received: { packets: 9, bytes: 1e5 * seconds }, frames: { packets: 9, bytes: 1e6 * seconds }, repair: { packets: 1, bytes: 1e5 * seconds },
  }, { name: 'spare', up: false, paths: [path('', 'idle', 0, 1)] }],
});
const gateway = (seconds) => ({
  version: '0.1.0', uptime_seconds: 2 * seconds, worker: { pid: 9, restarts: 1 }, firewall: { in_place: true }, limits: { cache_bytes: 67108864, flows: 65536 }, flows: 3, cached_bytes: 1024,
  packets: { towards_wireless_bytes: 500000 * seconds, overflows: 4 },
  rules: [{ name: 'roof', mode: 'snoop', interface: 'wlan0', ab: 0.1, flows_active: 3, flows_seen: 8, wireless_losses: 10 * seconds, repairs_hole: 12 * seconds, rtt_wireless: { samples: seconds, sum_seconds: 0.025 * seconds, mean_seconds: 0.025 }, gain: { ratio: 8.3, low: 4.6, high: 14.9 } }],
});

let chromium;
let server;
let folder;
let daemons;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lasthop-status-'));
  daemons = { gateway: new StandIn(join(folder, 'gateway.sock'), gateway), tunnel: new StandIn(join(folder, 'tunnel.sock'), tunnel) };
  await Promise.all([daemons.gateway.start(), daemons.tunnel.start()]);
  const words = ['status', '--serve', '127.0.0.1:0', '--gateway', daemons.gateway.path, '--tunnel', daemons.tunnel.path];
  [chromium, server] = await Promise.all([browser(), start(words)]);
});
after(async () => {
  await chromium?.close();
  server?.stop();
  await Promise.all(Object.values(daemons).map((daemon) => daemon.stop().catch(() => {})));
  rmSync(folder, { recursive: true, force: true });
});

async function open(options = {}) {
  const page = await chromium.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  page.errors = [];
  page.foreign = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') page.errors.push(message.text()); });
  page.on('request', (request) => { if (!request.url().startsWith(server.url)) page.foreign.push(request.url()); });
  await page.goto(server.url);
  // Two rounds: rates need two readings.
  await page.waitForFunction(() => /bit\/s/.test(document.querySelector('[data-kind="tunnel"] tbody tr td:nth-of-type(4)')?.textContent ?? ''));
  return page;
}

const cells = (page, kind) => page.$$eval(`[data-kind="${kind}"] .part:first-of-type tbody tr`, (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));

test('paths, rules and their last minutes are shown, as text and as charts', async () => {
  const page = await open();
  const [dish, other] = await cells(page, 'tunnel');
  assert.deepEqual([dish[0], dish[1], dish[2], dish[3], dish[6], dish[7], dish[8], dish[9]], ['dish', 'repairing', '192.0.2.7:51900', '30.0 Mbit/s found', '2.0 %', '10.0 %', '75.0 %', '0 s ago']);
  // Three quarters of a megabyte every two seconds of the stand-in's time.
  assert.deepEqual([dish[4], other[4]], ['3.00 Mbit/s', '1.00 Mbit/s']);
  assert.match(dish[5], /^4\d\.\d ms$/);
  const [rule] = await cells(page, 'gateway');
  assert.deepEqual([rule[0], rule[1], rule[2], rule[3], rule[7], rule[9]], ['roof', 'snoop', 'wlan0', '3', '25.0 ms', '8.30 (4.60–14.9)']);
  // Names are text, whatever they contain.
  assert.match(await page.locator('[data-kind="tunnel"] h3').first().textContent(), /^hub <b>& /);
  assert.deepEqual(await page.$$eval('[data-kind="tunnel"] h3 .state', (all) => all.map((state) => state.textContent)), ['repairing', 'no session']);
  assert.deepEqual(await page.$$eval('[data-kind="gateway"] .remarks li', (all) => all.map((item) => item.textContent)), ['4 queue overflows: packets passed untreated (on a bridge, they were lost)']);
  const titles = (kind) => page.$$eval(`[data-kind="${kind}"] .part:first-of-type .chart-title`, (all) => all.map((title) => title.textContent));
  assert.deepEqual(await titles('tunnel'), ['Throughput', 'Sent on each path, with repairs', 'Round trip', 'Loss']);
  assert.deepEqual(await titles('gateway'), ['Throughput', 'Round trip', 'Losses and repairs']);
  // What a chart shows is there for those who cannot see it.
  const chart = page.locator('[data-kind="tunnel"] .part:first-of-type .chart').nth(1);
  assert.match(await chart.locator('.chart-plot').getAttribute('aria-label'), /of dish, lte; now dish 3\.00, lte 1\.00; the numbers are in the table/);
  await chart.locator('summary').click();
  await chart.locator('tbody tr').first().waitFor();
  assert.deepEqual(await chart.locator('tbody tr').first().locator('th, td').evaluateAll((all) => [all[0].textContent, all[2].textContent]), ['dish', '3.000']);
  assert.deepEqual([page.errors, page.foreign], [[], []]);
  assert.deepEqual([...daemons.tunnel.requests, ...daemons.gateway.requests], Array(2).fill('{"request":"status"}'));
  await page.close();
});

test('a page that opens later has the history from before', async () => {
  const page = await open();
  const asked = page.waitForResponse((response) => response.url().includes('/api/status'));
  await page.reload();
  const answer = await (await asked).json();
  assert.ok(answer.daemons[1].history.rounds.length >= 2);
  // Later answers have only what is new.
  const later = await (await page.waitForResponse((response) => response.url().includes('after='))).json();
  assert.ok(later.daemons[1].history.rounds.length <= 2, `${later.daemons[1].history.rounds.length}`);
  await page.close();
});

test('a daemon that ends is said to, and its return as well', async () => {
  const page = await open();
  lte = 'down';
  await page.locator('#changes', { hasText: 'hub <b>&, path lte: down' }).waitFor({ state: 'attached' });
  assert.equal((await cells(page, 'tunnel'))[1][1], 'down');
  lte = 'repairing';
  await page.locator('#changes', { hasText: 'path lte: repairing' }).waitFor({ state: 'attached' });
  await page.locator('[data-kind="tunnel"] .part:first-of-type details > summary').first().focus();
  await daemons.tunnel.stop();
  await page.locator('[data-kind="tunnel"] .gone', { hasText: 'no tunnel is running' }).waitFor();
  assert.match(await page.locator('[data-kind="tunnel"] .gone').textContent(), /The values below are from \d+ s ago\. This page keeps asking\.$/);
  assert.equal(await page.locator('[data-kind="gateway"] h2 .state').textContent(), 'running');
  // The new process has another device.
  device = 'lasthop1';
  await daemons.tunnel.start();
  await page.locator('[data-kind="tunnel"] h2', { hasText: 'lasthop1 running' }).waitFor();
  assert.equal(await page.locator('[data-kind="tunnel"] .gone').textContent(), '');
  device = 'lasthop0';
  // The focus stays where it was.
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'SUMMARY');
  assert.deepEqual(page.errors, []);
  await page.close();
});

test('a server that ends is said to, and nothing is shown as current', async () => {
  const words = ['status', '--serve', '127.0.0.1:0', '--tunnel', daemons.tunnel.path];
  const own = await start(words);
  const page = await chromium.newPage();
  await page.goto(own.url);
  await page.locator('[data-kind="tunnel"] tbody tr').first().waitFor();
  own.stop();
  await page.locator('#notice', { hasText: 'does not answer' }).waitFor();
  assert.match(await page.locator('#fresh').textContent(), /^These values are \d+ s old\.$/);
  assert.equal(await page.locator('.daemon.unknown').count(), 1);
  await page.close();
});

test('the page is accessible in both colour schemes, from a phone to a wide window', async () => {
  for (const colorScheme of ['light', 'dark']) {
    for (const options of [{ viewport: { width: 1280, height: 900 } }, { viewport: { width: 768, height: 900 } }, PHONE]) {
      const page = await open({ ...options, colorScheme });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${JSON.stringify(options.viewport)}: ${wide} px too wide`);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`), [], `${colorScheme}, ${options.viewport.width}`);
      await page.close();
    }
  }
});

test('everything is reached by keyboard', async () => {
  const page = await open();
  const reached = new Set();
  for (let at = 0; at < 60; at++) {
    await page.keyboard.press('Tab');
    const words = await page.evaluate(() => (document.activeElement === document.body ? '' : `${document.activeElement.tagName} ${document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent}`));
    if (reached.has(words) && words.startsWith('A Skip')) break;
    reached.add(words);
  }
  for (const words of ['A Skip to the daemons', 'DIV Table: hub <b>&', 'SUMMARY Last 10 minutes', 'SUMMARY Numbers as a table', 'SUMMARY Meaning of the states']) {
    assert.ok(reached.has(words), `${words} is not among ${[...reached].join(' | ')}`);
  }
  await page.close();
});
