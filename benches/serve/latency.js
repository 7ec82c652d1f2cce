#!/usr/bin/env node
// Measures the time from a move of a slider until the new numbers of all twelve schemes are on the screen. Scenario
// wavelan-lan, real Chromium, release build:
//
//     cargo build --release && node benches/serve/latency.js [MOVES]
//
// needs `npm ci` in crates/lasthop-serve/browser. The page measures from the slider's event to the frame after table
// and bars have numbers of every scheme. LASTHOP names another binary, CHROMIUM another browser. Exits with status 1 if
// the median exceeds LIMIT_MS (300).

import { fileURLToPath } from 'node:url';

process.env.LASTHOP ??= fileURLToPath(new URL('../../target/release/lasthop', import.meta.url));
const { browser, open, serve } = await import('../../crates/lasthop-serve/browser/tests/page.js');

const moves = Number(process.argv[2] ?? 20);
const limit = Number(process.env.LIMIT_MS ?? 300);
const [chromium, server] = await Promise.all([browser(), serve()]);

/** Returns the milliseconds from a move of the loss slider to the frame with the results. */
const move = (page, position) => page.evaluate((position) => new Promise((resolve) => {
  const section = document.getElementById('throughput');
  const slider = document.getElementById('range-loss');
  const begun = performance.now();
  const watch = new MutationObserver(() => {
    if (section.dataset.firstMs === undefined) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun)));
  });
  watch.observe(section, { attributes: true });
  slider.value = String(position);
  slider.dispatchEvent(new Event('input', { bubbles: true }));
}), position);

const line = (what, times) => {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(0).padStart(5);
  console.log(`${what.padEnd(34)} median ${at(0.5)} ms   90 % ${at(0.9)} ms   worst ${at(1)} ms   (${times.length} moves)`);
  return sorted[Math.floor(sorted.length / 2)];
};

let median;
try {
  const page = await open(chromium, `${server.url}#scenario=wavelan-lan`);
  const done = () => page.waitForFunction(() => document.getElementById('throughput').dataset.done === 'true', undefined, { timeout: 60_000 });
  const [apart, dragged] = [[], []];
  for (let count = 0; count < moves; count++) {
    // Between 1 % and 4 %.
    apart.push(await move(page, 6 + (count % 6)));
    await done();
  }
  // Like dragging: the next move comes while the last one's runs are still being refined.
  for (let count = 0; count < moves; count++) dragged.push(await move(page, 6 + (count % 6)));
  median = line('12 schemes, one move at a time', apart);
  line('12 schemes, dragging', dragged);
} finally {
  await chromium.close();
  server.stop();
}
if (median > limit) {
  console.error(`the median is over ${limit} ms`);
  process.exitCode = 1;
}
