// Page of running daemons: asks the server for their state as long as it is visible.

import { state } from './server.js';
import { History } from './status-history.js';
import { DaemonView } from './status-views.js';

/** Time between two requests until the server states its own interval. */
const EVERY_S = 2;
/** Time after which a request is given up. */
const PATIENCE_S = 10;

const $ = (id) => document.getElementById(id);
const seconds = () => performance.now() / 1e3;

/** Board of the server and latest round that this page has. */
let known = { run: null, round: 0 };
/** @type {{history: History, view: DaemonView}[]} */
let daemons = [];
/** Changes of state in the latest answer, for users of screen readers; numbers that change all the time are not read out. @type {string[]} */
const changes = [];
/** Kinds and places of these daemons, one per line. */
let shown = null;
let every = EVERY_S;
/** Time of the latest answer. @type {number|null} */
let answered = null;
let timer = 0;
let busy = false;

/** Requests the state once, and again if rounds are missing. */
async function ask() {
  const words = new URLSearchParams(known.run === null ? {} : { run: known.run, after: String(known.round) });
  const answer = await state(words, AbortSignal.timeout(PATIENCE_S * 1e3));
  if (!take(answer)) {
    known = { run: null, round: 0 };
    take(await state(new URLSearchParams(), AbortSignal.timeout(PATIENCE_S * 1e3)));
  }
}

/** Shows an answer; returns `false` if earlier rounds must be requested again. */
function take(answer) {
  const now = seconds();
  const whole = known.run !== answer.run;
  const places = answer.daemons.map(({ kind, place }) => `${kind} ${place}`).join('\n');
  if (places !== shown) {
    shown = places;
    daemons = answer.daemons.map((daemon) => ({ history: new History(), view: new DaemonView(daemon, (change) => changes.push(change)) }));
    $('daemons').replaceChildren(...daemons.map(({ view }) => view.element));
  }
  every = answer.interval_seconds;
  const complete = answer.daemons.map((daemon, at) => daemons[at].history.take(daemon.history, whole, now, answer.span_seconds));
  if (!complete.every(Boolean)) return false;
  known = { run: answer.run, round: answer.round };
  answered = now;
  changes.length = 0;
  answer.daemons.forEach((daemon, at) => daemons[at].view.show(daemon, daemons[at].history, now, answer.span_seconds));
  if (changes.length) $('changes').textContent = changes.join('; ');
  $('version').textContent = answer.version;
  return true;
}

/** Shows whether the server answers. The age is in the footer: an alert that changes all the time would be read out again. @param {string|null} problem */
function tell(problem) {
  const text = problem === null ? '' : `lasthop status --serve does not answer: ${problem}. This page keeps asking.`;
  if ($('notice').textContent !== text) $('notice').textContent = text;
  for (const { view } of daemons) view.element.classList.toggle('unknown', problem !== null);
  const age = answered === null ? '' : `These values are ${Math.round(seconds() - answered)} s old.`;
  $('fresh').textContent = problem === null ? `Updated every ${every} s.` : age;
}

async function step() {
  clearTimeout(timer);
  if (busy || document.hidden) return;
  busy = true;
  try {
    await ask();
    tell(null);
  } catch (error) {
    tell(error instanceof TypeError ? 'it has ended, or the connection is lost' : error.message);
  }
  busy = false;
  timer = setTimeout(step, every * 1e3);
}

document.addEventListener('visibilitychange', step);
step();
