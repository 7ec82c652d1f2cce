// Way of requests to the simulator in this page, and of answers back: it runs in workers, as WebAssembly. The file
// simulator.js, which is loaded before, defines `LASTHOP_SIMULATOR`.

/** @type {{program: string, worker: string}} program in base64 of gzip, and source of a worker */
const { program, worker: source } = globalThis.LASTHOP_SIMULATOR;

const compiled = (async () => {
  const text = atob(program);
  const bytes = new Uint8Array(text.length);
  // Twenty times as fast as `Uint8Array.from` with a function.
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
})();
compiled.catch(() => {});
const address = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));

/** Most workers that are kept for later requests: the page rarely has more requests at a time. */
const MOST_IDLE = 2;

/** Workers that wait for a request. @type {Worker[]} */
const idle = [];

/** Whether a worker is being started for a later request. */
let starting = false;

/** Starts a worker, which waits until it is sent a request. @returns {Promise<Worker>} */
async function start() {
  const worker = new Worker(address);
  worker.postMessage({ module: await compiled });
  return worker;
}

/** Keeps a worker for a later request, or ends it if there are enough. @param {Worker} worker */
function keep(worker) {
  if (idle.length < MOST_IDLE) idle.push(worker);
  else worker.terminate();
}

/** Starts a worker for the next request unless there is one, so that this request need not wait for it. */
function prepare() {
  if (idle.length || starting) return;
  starting = true;
  start().then(keep, () => {}).finally(() => { starting = false; });
}
prepare();

/**
 * Sends a request to the simulator. Aborting it ends its worker.
 * @param {string} path @param {AbortSignal} [signal] @param {Blob} [body] @returns {Promise<Response>}
 */
export async function send(path, signal, body) {
  const sent = await body?.arrayBuffer() ?? new ArrayBuffer(0);
  let worker;
  try {
    worker = idle.pop() ?? await start();
  } catch (error) {
    return new Response(`this browser cannot run the simulator: ${error.message}\n`, { status: 500 });
  }
  if (signal?.aborted) {
    keep(worker);
    throw signal.reason;
  }
  const cut = path.indexOf('?');
  const words = ['lasthop-page', `/${cut < 0 ? path : path.slice(0, cut)}`, cut < 0 ? '' : path.slice(cut + 1)];
  return new Promise((resolve, reject) => {
    let head = new Uint8Array(0);
    let stream = null;
    const done = () => { worker.onmessage = worker.onerror = null; signal?.removeEventListener('abort', abort); };
    const end = () => {
      done();
      worker.terminate();
      prepare();
    };
    const abort = () => {
      end();
      stream?.error(signal.reason);
      reject(signal.reason);
    };
    const fail = (message) => {
      end();
      const error = new Error(message);
      stream?.error(error);
      resolve(new Response(`the simulator failed: ${message}\n`, { status: 500 }));
    };
    /** Takes a part of the answer: first the line that describes it. @param {Uint8Array} part */
    const take = (part) => {
      if (stream) { stream.enqueue(part); return; }
      const whole = new Uint8Array(head.length + part.length);
      whole.set(head);
      whole.set(part, head.length);
      head = whole;
      const line = head.indexOf(10);
      if (line < 0) return;
      const { status, type, file } = JSON.parse(new TextDecoder().decode(head.subarray(0, line)));
      const headers = { 'Content-Type': type, ...(file && { 'Content-Disposition': `attachment; filename="${file}"` }) };
      resolve(new Response(new ReadableStream({ start: (controller) => { stream = controller; } }), { status, headers }));
      if (line + 1 < head.length) stream.enqueue(head.subarray(line + 1));
    };
    worker.onmessage = ({ data: { part, ended } }) => {
      if (part) take(part);
      else if (ended.code || !stream) fail(ended.message.trim() || `exit code ${ended.code}`);
      else { done(); stream.close(); keep(worker); }
    };
    worker.onerror = (event) => fail(event.message || 'its worker ended');
    signal?.addEventListener('abort', abort);
    worker.postMessage({ words, body: sent }, [sent]);
  });
}
