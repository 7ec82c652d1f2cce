// Files that are chosen or dropped, and the selection of those that form a measurement.

/** Maximum number of bytes that the server accepts. */
const LARGEST = 64 * 2 ** 20;

/**
 * Passes on files that are chosen with `input` or dropped on `target`, including those in a folder.
 * @param {HTMLInputElement} input @param {HTMLElement} target @param {(files: File[]) => void} take
 */
export function receive(input, target, take) {
  input.addEventListener('change', () => {
    if (input.files.length) take([...input.files]);
    // Choosing the same file again counts as a new measurement.
    input.value = '';
  });
  const over = (is) => target.classList.toggle('over', is);
  target.addEventListener('dragover', (event) => { event.preventDefault(); over(true); });
  target.addEventListener('dragleave', () => over(false));
  target.addEventListener('drop', async (event) => {
    event.preventDefault();
    over(false);
    // The items must be read before anything is awaited: they are discarded afterwards.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [...event.dataTransfer.files];
    const folders = entries.filter((entry) => entry.isDirectory);
    const inside = await Promise.all(folders.map(filesIn));
    const found = folders.length ? files.filter((file) => !folders.some((folder) => folder.name === file.name)).concat(...inside) : files;
    if (found.length) take(found);
  });
}

/** Returns the files directly in a folder. @param {FileSystemDirectoryEntry} folder @returns {Promise<File[]>} */
async function filesIn(folder) {
  const reader = folder.createReader();
  const entries = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!some.length) break;
    entries.push(...some);
  }
  return Promise.all(entries.filter((entry) => entry.isFile).map((entry) => new Promise((resolve, reject) => { entry.file(resolve, reject); })));
}

/** Selects the files that the server reads, in its order. Throws an error of one line. @param {File[]} files @returns {Promise<File[]>} */
export async function measurement(files) {
  const chosen = await choose(files);
  const size = chosen.reduce((sum, file) => sum + file.size, 0);
  if (size > LARGEST) {
    throw new Error(`${chosen[0].name}: ${(size / 2 ** 20).toFixed(0)} MiB exceed the page's limit of ${LARGEST / 2 ** 20} MiB; capture headers only (tcpdump -s 128), or use lasthop fit, which has no limit`);
  }
  return chosen;
}

async function choose(files) {
  const report = files.find((file) => file.name === 'probe.json') ?? files.find((file) => file.name.endsWith('.json'));
  if (report && report.size <= LARGEST) {
    let named = [];
    try {
      const { down, up } = JSON.parse(await report.text());
      named = [down?.trace, up?.trace];
    } catch { /* The server reports it. */ }
    return [report, ...files.filter((file) => named.includes(file.name))];
  }
  if (files.length > 2) throw new Error(`${files.length} files: give one capture or trace, a trace for each direction, or the output of lasthop probe`);
  // By convention, the trace of the uplink has `up` in its name.
  const isUp = (file) => /(^|[^a-z])up([^a-z]|$)/i.test(file.name);
  return [...files].sort((one, other) => Number(isUp(one)) - Number(isUp(other)));
}

/** Offers a text to the user as a file. @param {string} name @param {string} text */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
