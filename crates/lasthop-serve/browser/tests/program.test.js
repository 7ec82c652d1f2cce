// Tests of the program of the page without a server, without a browser: its answers as WebAssembly are those of the native program.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { LOSSES } from './losses.js';
import { run } from '../../../lasthop-page/web/wasi.mjs';

const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../../target', import.meta.url));
const NATIVE = `${TARGET}/debug/lasthop-page`;
const PROGRAM = new WebAssembly.Module(readFileSync(`${TARGET}/wasm32-wasip1/page/lasthop-page.wasm`));

/** Returns an answer, and the digest of its bytes. @param {string} path @param {string} query @param {string} body */
function inBrowser(path, query, body = '') {
  const parts = [];
  const { code, message } = run(PROGRAM, ['lasthop-page', path, query], new TextEncoder().encode(body), (part) => parts.push(part));
  assert.equal(code, 0, message);
  return Buffer.concat(parts);
}

const native = (path, query, body = '') => execFileSync(NATIVE, [path, query], { input: body, maxBuffer: 2 ** 28 });
const digest = (bytes) => createHash('sha256').update(bytes).digest('hex');

function compare(path, query, body) {
  const [answer, expected] = [inBrowser(path, query, body), native(path, query, body)];
  assert.equal(digest(answer), digest(expected), `${path} ${query}: ${answer.subarray(0, 300)}`);
  return answer.toString();
}

const { scenarios } = JSON.parse(compare('/api/catalogue', '').split('\n')[1]);

for (const { name } of scenarios) {
  test(`every number of ${name} has the bytes of the native program`, () => {
    const small = `scenario=${name}&runs=${name === 'many-flows' ? '1&schemes=E2E&count=2000' : '2'}`;
    assert.match(compare('/api/first', small), /"done":true\}\n$/);
    assert.match(compare('/api/trace', small), /^\{"status":200,/);
    assert.match(compare('/api/scenario', small), new RegExp(`"file":"${name}.toml"`));
  });
}

test('QUIC is in it', () => {
  const set = 'set=flows.download.app%3D"quic"';
  const [, text] = compare('/api/trace', `scenario=farm-radio&size=200+KiB&${set}`).split('\n');
  assert.equal(JSON.parse(text).flows, 1);
  assert.notEqual(text, compare('/api/trace', 'scenario=farm-radio&size=200+KiB').split('\n')[1]);
});

test('the steps from a measurement to a cure have the bytes of the native program', () => {
  const [, link] = compare('/api/link', `rate=6+Mbps&delay=10+ms&file=losses.csv%3A${LOSSES.length}`, LOSSES).split('\n');
  const { scenario } = JSON.parse(link);
  const lines = compare('/api/advise', 'control=box&for=bulk,pages,call&runs=2', scenario).trim().split('\n');
  const { advice } = JSON.parse(lines.at(-1));
  assert.ok(advice.cures.length > 1);
  compare('/api/configuration', 'cure=SNOOP&interface=wlan0');
  compare('/api/prove', 'file=a.json%3A2', '{}');
});

test('what is refused has the words of the native program', () => {
  for (const [path, query] of [['/api/first', 'scenario=nope'], ['/api/trace', 'delay.wired=soon'], ['/api/link', 'file=a%3A9'], ['/api/configuration', 'cure=Z']]) {
    assert.match(compare(path, query, 'x'), /^\{"status":400,/);
  }
});

test('a request that does not exist ends the program with a message', () => {
  const { code, message } = run(PROGRAM, ['lasthop-page', '/api/frist', ''], new Uint8Array(0), () => {});
  assert.equal(code, 1);
  assert.match(message, /there is no path \/api\/frist; expected one of \/api\/catalogue, /);
});
