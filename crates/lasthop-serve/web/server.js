// What the page asks its server.

/** @typedef {{message: string, key: string|null, control: string|null}} Refusal */

/** The server's one line about what is wrong. */
export class Refused extends Error {
  /** @param {Refusal} refusal */
  constructor(refusal) {
    super(refusal.message);
    this.control = refusal.control;
  }
}

/** @param {string} path @param {AbortSignal} [signal] */
async function ask(path, signal) {
  // Without this header the server answers nobody: a page of another site cannot send it.
  const response = await fetch(path, { signal, headers: { 'X-Lasthop-Page': '1' } });
  if (response.ok) return response;
  const text = await response.text();
  let refusal = { message: text.trim() || `the server answered ${response.status}`, key: null, control: null };
  try { refusal = JSON.parse(text).error; } catch { /* A plain line. */ }
  throw new Refused(refusal);
}

/** The scenarios and schemes that there are. */
export async function catalogue() {
  return (await ask('api/catalogue')).json();
}

/** The scenario as a file, under the name that the server gives it. @param {string} query */
export async function scenario(query) {
  const response = await ask(`api/scenario?${query}`);
  const name = /filename="([^"]+)"/.exec(response.headers.get('Content-Disposition') ?? '');
  return { name: name?.[1] ?? 'scenario.toml', file: await response.blob() };
}

/** One run of the scheme shown. @param {string} query @param {AbortSignal} signal */
export async function trace(query, signal) {
  return (await ask(`api/trace?${query}`, signal)).json();
}

/**
 * Compares the schemes, with a few runs (`first`) or with all (`compare`); hands each line of the answer on as it comes.
 * @param {'first'|'compare'} extent @param {string} query @param {AbortSignal} signal @param {(lines: object[]) => void} take
 */
export async function compare(extent, query, signal, take) {
  const response = await ask(`api/${extent}?${query}`, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    // Those that came together are shown together.
    if (lines.length && !signal.aborted) take(lines.map((line) => JSON.parse(line)));
  }
}
