// A server that keeps what it receives, for judges that publish: /fail answers 500, everything else 200.
import { createServer } from "node:http";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";

export async function openDestination() {
  const received = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    received.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.statusCode = request.url.startsWith("/fail") ? 500 : 200;
    response.end("answered");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    origin,
    received,
    /** The first request to the path, as soon as it is there. */
    at: (path) => eventually(() => received.find((request) => request.url === path)),
    close: () => new Promise((closed) => { server.closeAllConnections(); server.close(closed); }),
  };
}

/** What find returns, as soon as it is something; at most ten seconds later. */
export async function eventually(find) {
  for (let tries = 0; tries < 400; tries++) {
    const found = await find();
    if (found) return found;
    await pause(25);
  }
  throw new Error("it never came to this");
}
