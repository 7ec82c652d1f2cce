// Requests of the page to its server.

import { send } from './transport.js';

/** @typedef {{message: string, key: string|null, control: string|null}} Refusal */

/** Error with the server's message of one line. */
export class Refused extends Error {
  /** @param {Refusal} refusal */
  constructor(refusal) {
    super(refusal.message);
    this.control = refusal.control;
  }
}

/** @param {string} path @param {AbortSignal} [signal] @param {Blob} [body] what is sent along, to where something is taken */
async function ask(path, signal, body) {
  const response = await send(path, signal, body);
  if (response.ok) return response;
  const text = await response.text();
  let refusal = { message: text.trim() || `the server answered ${response.status}`, key: null, control: null };
  try { refusal = JSON.parse(text).error; } catch { /* A plain line. */ }
  throw new Refused(refusal);
}

/** Returns the available scenarios and schemes. */
export async function catalogue() {
  return (await ask('api/catalogue')).json();
}

/** Returns the scenario as a file, with the server's file name. @param {string} query */
export async function scenario(query) {
  const response = await ask(`api/scenario?${query}`);
  const name = /filename="([^"]+)"/.exec(response.headers.get('Content-Disposition') ?? '');
  return { name: name?.[1] ?? 'scenario.toml', file: await response.blob() };
}

/** Returns one run of the displayed scheme. @param {string} query @param {AbortSignal} signal */
export async function trace(query, signal) {
  return (await ask(`api/trace?${query}`, signal)).json();
}

/**
 * Compares the schemes, with a few runs (`first`) or with all (`compare`); passes on each line of the answer as it arrives.
 * @param {'first'|'compare'} extent @param {string} query @param {AbortSignal} signal @param {(lines: object[]) => void} take
 */
export async function compare(extent, query, signal, take) {
  await lines(await ask(`api/${extent}?${query}`, signal), signal, take);
}

/** Passes on each line of an answer as it arrives. @param {Response} response @param {AbortSignal} signal @param {(lines: object[]) => void} take */
async function lines(response, signal, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    const read = lines.map((line) => JSON.parse(line));
    // The server may fail after the answer has begun.
    for (const { error } of read) if (error) throw new Refused(error);
    // Lines that arrive together are shown together.
    if (read.length && !signal.aborted) take(read);
  }
}

/** Concatenates files, and puts their names into the query. @param {File[]} files @param {URLSearchParams} [words] */
function bundle(files, words = new URLSearchParams()) {
  const query = new URLSearchParams(words);
  for (const file of files) query.append('file', `${file.name}:${file.size}`);
  return { query: query.toString(), body: new Blob(files) };
}

/** Returns the evaluation of the link that files have measured. @param {File[]} files @param {URLSearchParams} given @param {AbortSignal} signal */
export async function link(files, given, signal) {
  const { query, body } = bundle(files, given);
  return (await ask(`api/link?${query}`, signal, body)).json();
}

/** Requests advice on the link of a scenario. @param {string} scenario @param {URLSearchParams} words @param {AbortSignal} signal @param {(lines: object[]) => void} take */
export async function advise(scenario, words, signal, take) {
  await lines(await ask(`api/advise?${words}`, signal, new Blob([scenario])), signal, take);
}

/** Returns the map of the atlas. @param {URLSearchParams} words @param {AbortSignal} signal */
export async function atlas(words, signal) {
  return (await ask(`api/atlas?${words}`, signal)).json();
}

/** Returns the files of a cure. @param {URLSearchParams} words @param {AbortSignal} signal */
export async function configuration(words, signal) {
  return (await ask(`api/configuration?${words}`, signal)).json();
}

/** Returns the comparison of a report and a promise. @param {File[]} files @param {AbortSignal} signal */
export async function prove(files, signal) {
  const { query, body } = bundle(files);
  return (await ask(`api/prove?${query}`, signal, body)).json();
}

/** Returns the state of running daemons, with the rounds of their history after those that are known. @param {URLSearchParams} known @param {AbortSignal} signal */
export async function state(known, signal) {
  return (await ask(`api/status?${known}`, signal)).json();
}
