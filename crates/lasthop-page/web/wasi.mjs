// System interface of the program (WASI preview 1): arguments, standard input and output, clock and random bytes. There
// are neither files nor sockets.

/** Error numbers of WASI. */
const [SUCCESS, BAD_DESCRIPTOR, NOT_SUPPORTED] = [0, 8, 58];
/** Character device, the type of standard streams. */
const CHARACTERS = 2;

/** Ends the program. */
class Exit extends Error {
  /** @param {number} code */
  constructor(code) {
    super(`exit code ${code}`);
    this.code = code;
  }
}

/**
 * Runs the program once.
 * @param {WebAssembly.Module} module
 * @param {string[]} words arguments, the first of which is the program's name
 * @param {Uint8Array} input standard input
 * @param {(bytes: Uint8Array) => void} output takes standard output as it is written
 * @returns {{code: number, message: string}} exit code, and what was written to standard error
 */
export function run(module, words, input, output) {
  let memory = null;
  let read = 0;
  let message = '';
  const view = () => new DataView(memory.buffer);
  const bytes = (at, length) => new Uint8Array(memory.buffer, at, length);
  const encoded = words.map((word) => new TextEncoder().encode(`${word}\0`));
  const text = new TextDecoder();
  /** Calls `each` with every buffer of a list, until it takes less than a buffer; returns the sum. */
  const buffers = (list, count, each) => {
    let sum = 0;
    for (let index = 0; index < count; index += 1) {
      const [at, length] = [view().getUint32(list + 8 * index, true), view().getUint32(list + 8 * index + 4, true)];
      const taken = each(bytes(at, length));
      sum += taken;
      if (taken < length) break;
    }
    return sum;
  };
  const system = {
    args_sizes_get(count, size) {
      view().setUint32(count, encoded.length, true);
      view().setUint32(size, encoded.reduce((sum, word) => sum + word.length, 0), true);
      return SUCCESS;
    },
    args_get(list, place) {
      let at = place;
      encoded.forEach((word, index) => {
        view().setUint32(list + 4 * index, at, true);
        bytes(at, word.length).set(word);
        at += word.length;
      });
      return SUCCESS;
    },
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return SUCCESS;
    },
    environ_get: () => SUCCESS,
    clock_time_get(clock, precision, at) {
      const milliseconds = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(at, BigInt(Math.round(milliseconds * 1e6)), true);
      return SUCCESS;
    },
    random_get(at, length) {
      crypto.getRandomValues(bytes(at, length));
      return SUCCESS;
    },
    fd_read(descriptor, list, count, sum) {
      if (descriptor !== 0) return BAD_DESCRIPTOR;
      view().setUint32(sum, buffers(list, count, (buffer) => {
        const part = input.subarray(read, read + buffer.length);
        buffer.set(part);
        read += part.length;
        return part.length;
      }), true);
      return SUCCESS;
    },
    fd_write(descriptor, list, count, sum) {
      if (descriptor !== 1 && descriptor !== 2) return BAD_DESCRIPTOR;
      view().setUint32(sum, buffers(list, count, (buffer) => {
        if (descriptor === 1) output(buffer.slice()); else message += text.decode(buffer);
        return buffer.length;
      }), true);
      return SUCCESS;
    },
    fd_fdstat_get(descriptor, at) {
      if (descriptor > 2) return BAD_DESCRIPTOR;
      bytes(at, 24).fill(0);
      view().setUint8(at, CHARACTERS);
      return SUCCESS;
    },
    fd_prestat_get: () => BAD_DESCRIPTOR,
    proc_exit(code) { throw new Exit(code); },
  };
  const imports = {};
  for (const { module: name, name: call } of WebAssembly.Module.imports(module)) {
    (imports[name] ??= {})[call] = system[call] ?? (() => NOT_SUPPORTED);
  }
  const instance = new WebAssembly.Instance(module, imports);
  memory = instance.exports.memory;
  let code = 0;
  try {
    instance.exports._start();
  } catch (error) {
    if (error instanceof Exit) ({ code } = error); else [code, message] = [1, `${message}${error.message}`];
  }
  return { code, message };
}
