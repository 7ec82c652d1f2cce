// The tour: five states of the page, from one loss to the cure, each of which is a link.

/** Drops exactly these data segments the first time they cross the radio, in every run. */
const drops = (...segments) => `links.radio.errors={model="list", drop=[${segments.map((data) => `{data=${data}}`).join(', ')}]}`;
/** Endpoints of 1997 for the schemes of the 1997 study; schemes between modern endpoints keep Linux's. The timers are 4.4BSD's own, not those fitted to the study. */
const OF_1997 = 'tcp.preset="bsd-lite"';
const link = ({ set = [], ...words }) => new URLSearchParams([['scenario', 'farm-radio'], ...Object.entries(words), ...set.map((line) => ['set', line])]).toString();
const small = { size: '400 KiB', runs: '1' };

/** @typedef {{title: string, words: string, link: string, look: string}} Step */

/** @type {Step[]} */
const STEPS = [
  {
    title: 'One frame is lost',
    words: 'A server sends over the Internet to a mast (the base station), and that by radio to a farm. Both ends are Linux 6.18. The radio loses one frame; nothing '
      + 'else goes wrong. Later frames arrive, and each acknowledgment of the receiver reports received and missing data: duplicate acknowledgments.',
    link: link({ ...small, set: [drops(40)], schemes: 'E2E-CUBIC', scheme: 'E2E-CUBIC', find: 'loss', span: '60000' }),
    look: 'stage',
  },
  {
    title: 'TCP treats it as congestion',
    words: 'A round trip after the loss the sender learns which segment is missing, retransmits it, and reduces its congestion window by 30 % (CUBIC; Reno halves it), '
      + 'as if the network were overloaded: see the step down. The loss was noise, but TCP cannot know.',
    link: link({ ...small, set: [drops(40)], schemes: 'E2E-CUBIC', scheme: 'E2E-CUBIC', find: 'source' }),
    look: 'window',
  },
  {
    title: 'Three losses: 1997 and today',
    words: 'The same three losses. E2E is TCP of 1997 (Reno on 4.4BSD, whose timeout is at least 1 s): it receives too few duplicates, stalls until the timer '
      + 'expires, and restarts from a window of one segment. E2E-CUBIC is Linux 6.18: selective acknowledgments name all three holes, so it does not stall, but it still slows down.',
    link: link({ ...small, set: [drops(40, 42, 44), OF_1997], schemes: 'E2E,E2E-CUBIC', scheme: 'E2E', beside: 'E2E-CUBIC', find: 'timeout' }),
    look: 'sequence',
  },
  {
    title: 'The gateway repairs',
    words: 'The same three losses between Linux 6.18. On the left, the server retransmits, a round trip after the losses. On the right, a gateway on the mast (SNOOP) has copies and '
      + 'retransmits the lost frames at once, over the radio only. It suppresses duplicate acknowledgments, or forwards them without SACK blocks: the '
      + 'server never notices, and in the plots above its window stays open.',
    link: link({ ...small, set: [drops(40, 42, 44)], schemes: 'E2E-CUBIC,SNOOP', scheme: 'E2E-CUBIC', beside: 'SNOOP', find: 'source', span: '120000' }),
    look: 'stage',
  },
  {
    title: 'The cure, measured',
    words: 'Now 1 % of all frames is lost at random. The dashed line is the throughput without loss. Move “Frames lost”: which schemes stay near the line? '
      + 'And which if losses occur in bursts? The twelve schemes of 1997 are in the scenarios wavelan-lan and wavelan-wan, whose timeouts of at least 3 s and 5 s '
      + 'are fitted to published throughputs.',
    link: link({ size: '4 MiB', runs: '10', schemes: 'E2E-CUBIC,E2E-BBR,SNOOP,SPLIT-BBR' }),
    look: 'page',
  },
];

/** Returns the link of a step. @param {number} number from 1 */
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

  /** Scrolls to the subject of the step once, when it has arrived. */
  arrived() {
    if (!this.due || !this.number) return;
    this.due = false;
    this.show();
  }

  show() {
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const { look } = STEPS[this.number - 1];
    // In the diagram the current time is at the bottom.
    document.getElementById(look)?.scrollIntoView({ behavior: still ? 'auto' : 'smooth', block: look === 'stage' ? 'end' : 'start' });
  }
}
