// A measurement: losses of 4,000 packets with a spacing of 1 ms from a small generator, 1 in 50.

let state = 7;
const isLost = () => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Number((state >>> 16) % 50 === 0); };
export const LOSSES = ['sent_s,bytes,lost', ...Array.from({ length: 4000 }, (_, at) => `${(at / 1e3).toFixed(3)},1000,${isLost()}`), ''].join('\n');
