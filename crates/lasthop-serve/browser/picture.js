#!/usr/bin/env node
// Draws docs/img/serve.png, the page as it is now:
//
//     cargo build --release && npm ci --prefix crates/lasthop-serve/browser && node crates/lasthop-serve/browser/picture.js [FILE]
//
// LASTHOP names another binary, CHROMIUM another browser. Fonts are those of the machine, so that pictures from two machines differ.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

process.env.LASTHOP ??= fileURLToPath(new URL('../../../target/release/lasthop', import.meta.url));
const { browser, open, serve } = await import('./tests/page.js');

/** What is shown: the page as it opens, and the transfer's packets under snoop. */
const LINK = '#scheme=SNOOP';
/** Down to the plots: what stands below needs no picture. */
const HEIGHT = 1680;

const file = process.argv[2] ?? fileURLToPath(new URL('../../../docs/img/serve.png', import.meta.url));
const [chromium, server] = await Promise.all([browser(), serve()]);
const page = await open(chromium, server.url + LINK, { viewport: { width: 1200, height: HEIGHT }, colorScheme: 'light', reducedMotion: 'reduce' });
// How long the first numbers took is another number each time.
await page.waitForTimeout(300);
writeFileSync(file, await page.screenshot());
await chromium.close();
server.stop();
