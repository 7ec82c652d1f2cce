// Way of requests to the server, and of answers back. The page without a server has another one.

/** Sends a request. @param {string} path @param {AbortSignal} [signal] @param {Blob} [body] what is sent along, to where something is taken @returns {Promise<Response>} */
export function send(path, signal, body) {
  // The server rejects requests without this header: pages of other sites cannot send it.
  return fetch(path, { signal, headers: { 'X-Lasthop-Page': '1' }, ...(body && { method: 'POST', body }) });
}
