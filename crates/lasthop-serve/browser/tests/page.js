// Shared parts of the tests: lasthop serving on a free port, and a browser.

import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? `${ROOT}target`;
export const LASTHOP = process.env.LASTHOP ?? `${TARGET}/debug/lasthop`;

/** Folder of the page without a server (`make page`), if that is to be tested. */
export const ALONE = process.env.LASTHOP_PAGE;

/**
 * Starts `lasthop serve`, or a server of files for the page without a server; returns the address, and a function that stops it.
 * @param {string[]} args
 */
export const serve = (args = []) => (ALONE ? files(ALONE) : start(['serve', '--listen', '127.0.0.1:0', ...args]));

/** Serves the files of a folder; `cure` is `cure.html`, `atlas` is `atlas.html`, as for `lasthop serve`. @param {string} folder */
async function files(folder) {
  const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
  const server = createServer(async ({ url }, response) => {
    const path = new URL(url, 'http://localhost').pathname;
    const name = { '/': '/index.html', '/cure': '/cure.html', '/atlas': '/atlas.html' }[path] ?? path;
    try {
      const text = await readFile(join(folder, name));
      response.writeHead(200, { 'Content-Type': types[extname(name)] ?? 'application/octet-stream' }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${server.address().port}/`, stop: () => { server.closeAllConnections(); server.close(); } };
}

/** Starts a command that serves a page; returns the printed address, and a function that stops it. @param {string[]} words */
export async function start(words) {
  const child = spawn(LASTHOP, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  const failed = new Promise((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`lasthop ${words[0]} ended with ${code}`)));
  });
  failed.catch(() => {});
  const lines = createInterface({ input: child.stdout });
  const url = await Promise.race([new Promise((resolve) => lines.once('line', resolve)), failed]);
  return { url, stop: () => child.kill() };
}

/** Launches Debian's Chromium, or the one that CHROMIUM names, without external requests. */
export function browser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

/** Small transfer over a testbed of the 1997 study: the tests check that numbers arrive, not how fast. */
export const SMALL = 'scenario=wavelan-lan&size=200+KiB&runs=6';

/** Opens the page at a link and waits until everything is shown. @param {import('playwright-core').Browser} chromium @param {string} url @param {object} [options] */
export async function open(chromium, url, options = {}) {
  const page = await chromium.newPage({ viewport: { width: 1200, height: 900 }, ...options });
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error') page.errors.push(message.text()); });
  await go(page, url);
  return page;
}

/** Opens another link in the same page from scratch. @param {import('playwright-core').Page} page @param {string} url */
export async function go(page, url) {
  // Otherwise only the fragment changes, which goto does not wait for.
  await page.goto('about:blank');
  await page.goto(url);
  await settled(page);
}

/** Waits until all answers to the page's current state are shown. @param {import('playwright-core').Page} page */
export async function settled(page) {
  await page.waitForFunction(() => {
    const words = new URL(document.getElementById('download').href).search.slice(1);
    return !document.body.classList.contains('busy') && document.getElementById('shown').dataset.drawn === words
      && document.getElementById('throughput').dataset.done === 'true';
  }, undefined, { timeout: 30_000 });
}

/** Returns the visible numbers of the table by scheme. @param {import('playwright-core').Page} page */
export function numbers(page) {
  return page.$$eval('#measures tbody tr', (rows) => Object.fromEntries(rows.map((row) => [row.dataset.scheme, [...row.cells].slice(1).filter((cell) => !cell.hidden).map((cell) => cell.textContent)])));
}

/** Returns the visible headings of the table. @param {import('playwright-core').Page} page */
export function headings(page) {
  return page.$$eval('#measures thead th', (heads) => heads.filter((head) => !head.hidden).map((head) => head.textContent));
}
