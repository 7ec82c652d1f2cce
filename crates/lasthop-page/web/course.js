// Pages of the course: answers are judged by the intervals that the page contains. Nothing is stored or sent.

/**
 * Reads a number as a person writes it: digits with a decimal point, and maybe the unit.
 * @param {string} text @param {string} unit @returns {{value: number}|{problem: string}}
 */
function read(text, unit) {
  const found = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(.*)$/i.exec(text.trim().replace('\u2212', '-'));
  if (!text.trim()) return { problem: 'Enter a number first.' };
  if (/^[+-]?\d+,\d+/.test(text.trim())) return { problem: 'Use a point as the decimal separator, as in 1.5, and no thousands separator.' };
  if (!found) return { problem: `Enter a number in ${unit}, e.g. 1.5.` };
  if (found[2] && found[2].toLowerCase() !== unit.toLowerCase()) return { problem: `The answer is asked in ${unit}; enter the number only.` };
  return { value: Number(found[1]) };
}

/** @param {number} value @param {string} interval lower and upper bound @returns {boolean} */
const within = (value, interval) => { const [low, high] = interval.split(' ').map(Number); return value >= low && value <= high; };

/** Judges a form. @param {HTMLFormElement} form @returns {{verdict: 'right'|'near'|'wrong'|'none', words: string}} */
function judge(form) {
  const { kind, right, near, unit, hint } = form.dataset;
  const wrong = { verdict: 'wrong', words: `Wrong. ${hint}` };
  if (kind === 'choice') {
    const chosen = new FormData(form).get('answer');
    if (!chosen) return { verdict: 'none', words: 'Choose an answer first.' };
    return chosen === right ? { verdict: 'right', words: 'Right.' } : wrong;
  }
  const answer = read(form.querySelector('input').value, unit);
  if ('problem' in answer) return { verdict: 'none', words: answer.problem };
  if (within(answer.value, right)) return { verdict: 'right', words: 'Right.' };
  return within(answer.value, near) ? { verdict: 'near', words: `Near, but not exact enough. ${hint}` } : wrong;
}

const forms = [...document.querySelectorAll('form.answer')];

function showScore() {
  const right = forms.filter((form) => form.dataset.verdict === 'right').length;
  document.getElementById('score').textContent = `${right} of ${forms.length} questions answered right`;
}

for (const form of forms) {
  const verdict = form.querySelector('.verdict');
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const judged = judge(form);
    form.dataset.verdict = judged.verdict;
    verdict.textContent = judged.words;
    showScore();
  });
  // A verdict belongs to the answer that was checked.
  form.addEventListener('input', () => { delete form.dataset.verdict; verdict.textContent = ''; showScore(); });
}
if (forms.length) showScore();
