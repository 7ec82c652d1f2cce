// Worker of the page: runs the program once for each request, and posts the answer in parts.

import { run } from './wasi.mjs';

let module = null;

addEventListener('message', ({ data }) => {
  if (data.module) { ({ module } = data); return; }
  const output = (part) => postMessage({ part }, { transfer: [part.buffer] });
  postMessage({ ended: run(module, data.words, new Uint8Array(data.body), output) });
});
