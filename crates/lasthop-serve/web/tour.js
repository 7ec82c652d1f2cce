// The tour: five states of the page, from one loss to the cure, each a link that can be sent on.

/** Exactly these data segments are lost the first time they cross the wireless link: the same in every run. */
const drops = (...segments) => `links.wireless.errors={model="list", drop=[${segments.map((data) => `{data=${data}}`).join(', ')}]}`;
const link = (words) => new URLSearchParams({ scenario: 'wavelan-wan', ...words }).toString();
const small = { size: '400 KiB', runs: '1' };

/** @typedef {{title: string, words: string, link: string, look: string}} Step */

/** @type {Step[]} */
const STEPS = [
  {
    title: 'One frame is lost',
    words: 'A server sends over the Internet to a base station, and that by radio to a mobile host. The radio loses one frame; nothing else goes wrong. What comes '
      + 'behind it arrives and makes the receiver say again and again what it still waits for: duplicate acknowledgments.',
    link: link({ ...small, set: drops(60), schemes: 'E2E', scheme: 'E2E', find: 'loss' }),
    look: 'stage',
  },
  {
    title: 'TCP takes it for congestion',
    words: 'After three duplicates the sender sends the segment again (fast retransmit): a whole round trip after the loss. And it halves its congestion window, '
      + 'as if the network were overloaded: look at the step down. The loss was noise, but TCP cannot know.',
    link: link({ ...small, set: drops(60), schemes: 'E2E', scheme: 'E2E', find: 'source' }),
    look: 'window',
  },
  {
    title: 'Three losses in a window: it waits',
    words: 'Lose three frames close to each other, and Reno runs out of duplicates. Nothing moves until its timer runs out, then the window starts from one '
      + 'segment: the flat line in the plot is a link that nobody uses.',
    link: link({ ...small, set: drops(60, 62, 64), schemes: 'E2E', scheme: 'E2E', find: 'timeout' }),
    look: 'sequence',
  },
  {
    title: 'The base station repairs',
    words: 'The same three losses, under two schemes. With LL-TCP-AWARE the base station has copies, sends the lost frames again over the radio alone, '
      + 'and keeps the duplicate acknowledgments back. The sender never notices, and its window stays open.',
    link: link({ ...small, set: drops(60, 62, 64), schemes: 'E2E,LL-TCP-AWARE', scheme: 'E2E', beside: 'LL-TCP-AWARE', find: 'local' }),
    look: 'sequence',
  },
  {
    title: 'The cure, measured',
    words: 'Now errors at random, as in the published measurements, and all twelve schemes. The dashed line is what the path carries without loss. '
      + 'Move “Frames lost”: which schemes stay near the line? And which when losses come in bursts?',
    link: link({ size: '1 MiB', runs: '10' }),
    look: 'page',
  },
];

/** The link of a step. @param {number} number from 1 */
const href = (number) => `#tour=${number}&${STEPS[number - 1].link}`;

export class Tour {
  /** @param {HTMLElement} element @param {HTMLAnchorElement} start @param {() => string} leave the link of the present state without the tour */
  constructor(element, start, leave) {
    this.element = element;
    this.leave = leave;
    this.number = 0;
    start.href = href(1);
    const part = (name) => element.querySelector(`[data-part="${name}"]`);
    this.parts = Object.fromEntries(['count', 'title', 'words', 'back', 'next', 'end', 'look'].map((name) => [name, part(name)]));
    this.parts.look.addEventListener('click', (event) => { event.preventDefault(); this.show(); });
  }

  /** Shows step `number`, or nothing. @param {number|undefined} number */
  update(number) {
    const step = STEPS[(number ?? 0) - 1];
    this.element.hidden = !step;
    document.body.classList.toggle('touring', Boolean(step));
    if (!step) { this.number = 0; return; }
    const { count, title, words, back, next, end, look } = this.parts;
    end.href = this.leave();
    look.href = `#${step.look}`;
    if (this.number === number) return;
    count.textContent = `Step ${number} of ${STEPS.length}`;
    title.textContent = step.title;
    words.textContent = step.words;
    back.hidden = number === 1;
    if (number > 1) back.href = href(number - 1);
    next.hidden = number === STEPS.length;
    if (number < STEPS.length) next.href = href(number + 1);
    this.number = number;
    this.due = true;
    title.focus({ preventScroll: true });
  }

  /** What the step is about is there: brings it into sight, once. */
  arrived() {
    if (!this.due || !this.number) return;
    this.due = false;
    this.show();
  }

  show() {
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const { look } = STEPS[this.number - 1];
    // In the diagram the present is at the bottom.
    document.getElementById(look)?.scrollIntoView({ behavior: still ? 'auto' : 'smooth', block: look === 'stage' ? 'end' : 'start' });
  }
}
