#!/usr/bin/env node
// Renders docs/img/serve.png, the current page:
//
//     cargo build --release && npm ci --prefix crates/lasthop-serve/browser && node crates/lasthop-serve/browser/picture.js [FILE]
//
// LASTHOP names another binary, CHROMIUM another browser. Fonts depend on the machine, so images from two machines
// differ.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

process.env.LASTHOP ??= fileURLToPath(new URL('../../../target/release/lasthop', import.meta.url));
const { browser, open, serve } = await import('./tests/page.js');

/** State that is shown: the initial page, and the transfer's packets under snoop. */
const LINK = '#scheme=SNOOP';
/** Height down to the plots; the rest is left out. */
const HEIGHT = 1680;

const file = process.argv[2] ?? fileURLToPath(new URL('../../../docs/img/serve.png', import.meta.url));
const [chromium, server] = await Promise.all([browser(), serve()]);
const page = await open(chromium, server.url + LINK, { viewport: { width: 1200, height: HEIGHT }, colorScheme: 'light', reducedMotion: 'reduce' });
// The time of the first numbers varies.
await page.waitForTimeout(300);
writeFileSync(file, await page.screenshot());
await chromium.close();
server.stop();
