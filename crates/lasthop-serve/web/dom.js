// Elements of the pages.

/** Creates an element. @param {string} tag @param {object} properties @param {(Node|string)[]} children */
export const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

/** Replaces the contents of a table. @param {HTMLTableElement} element @param {string[]} heads @param {HTMLElement[]} rows */
export const table = (element, heads, rows) => {
  element.tHead.replaceChildren(make('tr', {}, ...heads.map((textContent) => make('th', { scope: 'col', textContent }))));
  element.tBodies[0].replaceChildren(...rows);
};

/** Creates a row of a table; its first cell names it. @param {(string|HTMLElement)[]} cells */
export const row = ([head, ...cells], className = '') => make('tr', { className }, make('th', { scope: 'row', textContent: head }),
  ...cells.map((cell) => (typeof cell === 'string' ? make('td', { textContent: cell }) : cell)));

/** Puts a table into a region that scrolls by keyboard. @param {HTMLElement} inner @param {string} label */
export const scrolled = (inner, label) => {
  const scroll = make('div', { className: 'scroll', tabIndex: 0 }, inner);
  scroll.setAttribute('role', 'region');
  scroll.setAttribute('aria-label', label);
  return scroll;
};
