// Settings: a text field and a slider for each control that the server names. The server parses the text with its unit,
// and returns the nearest stop of the slider.

/**
 * @typedef {{id: string, label: string, hint: string, text: string, set: boolean, stops: string[], at: number, fixed: string|null}} Control
 * @typedef {{row: HTMLElement, label: HTMLLabelElement, text: HTMLInputElement, range: HTMLInputElement, clear: HTMLButtonElement,
 *   hint: HTMLElement, stops: string[], editing: boolean}} Row
 */

export class Controls {
  /** @param {HTMLElement} element @param {(id: string, text: string|undefined) => void} changed */
  constructor(element, changed) {
    this.element = element;
    this.changed = changed;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
  }

  /** @param {Control[]} controls */
  show(controls) {
    for (const [id, row] of this.rows) {
      if (!controls.some((control) => control.id === id)) { row.row.remove(); this.rows.delete(id); }
    }
    controls.forEach((control, index) => {
      const row = this.rows.get(control.id) ?? this.make(control.id);
      if (this.element.children[index] !== row.row) this.element.insertBefore(row.row, this.element.children[index] ?? null);
      row.label.textContent = control.label;
      row.hint.textContent = control.fixed ? `${control.hint} Cannot be set: ${control.fixed}.` : control.hint;
      row.hint.classList.toggle('hidden', !control.fixed);
      row.row.title = row.hint.textContent;
      row.text.disabled = control.fixed !== null;
      row.range.disabled = control.fixed !== null;
      row.row.classList.toggle('set', control.set);
      row.clear.disabled = !control.set;
      row.clear.setAttribute('aria-label', `${control.label} as in the scenario`);
      row.range.setAttribute('aria-label', `${control.label}, slider`);
      row.stops = control.stops;
      row.range.max = String(control.stops.length - 1);
      // Do not replace text that the user is typing by an older answer.
      if (!row.editing) row.text.value = control.text;
      row.range.value = String(control.at);
      row.range.setAttribute('aria-valuetext', control.text);
    });
  }

  /** @param {string} id @returns {Row} */
  make(id) {
    const name = id.replace(/[^a-z0-9]/gi, '-');
    const row = document.createElement('div');
    row.className = 'control';
    row.dataset.id = id;
    const label = Object.assign(document.createElement('label'), { htmlFor: `text-${name}` });
    const text = Object.assign(document.createElement('input'), { type: 'text', id: `text-${name}`, spellcheck: false, maxLength: 60, placeholder: 'set below' });
    text.setAttribute('aria-describedby', `hint-${name} error-${name}`);
    const range = Object.assign(document.createElement('input'), { type: 'range', id: `range-${name}`, min: '0', step: '1' });
    const clear = Object.assign(document.createElement('button'), { type: 'button', className: 'clear', textContent: '↺', title: 'As in the scenario' });
    const hint = Object.assign(document.createElement('p'), { className: 'hidden', id: `hint-${name}` });
    const error = Object.assign(document.createElement('p'), { className: 'error', id: `error-${name}` });
    row.append(label, text, clear, range, hint, error);
    const made = { row, label, text, range, clear, hint, stops: [], editing: false };
    range.addEventListener('input', () => {
      const stop = made.stops[Number(range.value)];
      made.editing = false;
      text.value = stop;
      range.setAttribute('aria-valuetext', stop);
      this.changed(id, stop);
    });
    text.addEventListener('input', () => { made.editing = true; });
    text.addEventListener('change', () => {
      made.editing = false;
      this.changed(id, text.value.trim() || undefined);
    });
    clear.addEventListener('click', () => {
      made.editing = false;
      this.changed(id, undefined);
    });
    this.rows.set(id, made);
    return made;
  }
}

/** Shows an error beside the control it refers to, if there is one; an empty message removes it. @param {string|null} control @param {string} message */
export function showError(control, message) {
  for (const element of document.querySelectorAll('p.error')) element.textContent = '';
  for (const element of document.querySelectorAll('[aria-invalid]')) element.removeAttribute('aria-invalid');
  if (!message) return;
  const name = (control ?? '').replace(/[^a-z0-9]/gi, '-');
  const beside = control ? document.getElementById(`error-${name}`) : null;
  if (!beside) return;
  beside.textContent = message;
  beside.closest('details')?.setAttribute('open', '');
  for (const id of [`text-${name}`, name]) document.getElementById(id)?.setAttribute('aria-invalid', 'true');
}
