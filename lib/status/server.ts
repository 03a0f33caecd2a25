import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { SystemError } from '../text/error.ts';

/** The answer of a path. */
export interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

/** The part of a request that an answer may depend on. */
export interface Question {
  /** The names in the query string; values are ignored. */
  readonly query: ReadonlySet<string>;
  readonly accept: string;
}

/** The handlers by path. */
export type Routes = Readonly<Record<string, (question: Question) => Promise<Reply> | Reply>>;

const MAX_URL_LENGTH = 512;
const MAX_HEADER_BYTES = 8 * 1024;

/** Enough for a scrape, the probes and a few people; further connections are closed at once. */
const MAX_CONNECTIONS = 32;

/** How long a client may take for each step: to send a request, to read the answer, to send the next request. */
const STEP_MS = 10_000;

/** No script, no content from elsewhere, no framing, no cache. */
const HEADERS: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/** The status for what Node.js refuses before there is a request, by error code; all else is not HTTP (400). */
const REFUSALS: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/**
 * Serves GET and HEAD on an address until the signal aborts.
 *
 * @param address `host:port`; no host means all addresses
 * @param onError receives the error of a route, which the client does not see
 * @param stepMs how long a client may take for each step
 * @throws {SystemError}
 */
export async function serve(
  address: string,
  routes: Routes,
  signal: AbortSignal,
  onError: (error: unknown) => void,
  stepMs = STEP_MS,
): Promise<Server> {
  const server = createStrictServer(stepMs, (request, response) => {
    const late = setTimeout(() => request.socket.destroy(), stepMs).unref();
    response.on('close', () => clearTimeout(late));
    reply(request, response, routes).catch((error: unknown) => {
      onError(error);
      send(request, response, plain(500, 'internal error, see the log'));
    });
  });
  await listen(server, address);
  server.on('error', onError);
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop);
  // The server alone must not keep the process alive.
  server.unref();
  return server;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

function createStrictServer(stepMs: number, handle: Handler): Server {
  const options = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: stepMs,
    requestTimeout: stepMs,
    keepAliveTimeout: stepMs,
    // By default, Node.js checks every 30 s, and slow clients stay as long.
    connectionsCheckingInterval: Math.ceil(stepMs / 10),
    // `reply` checks this instead, to send the same headers as in every answer.
    requireHostHeader: false,
  };
  const server = createServer(options, handle);
  server.maxConnections = MAX_CONNECTIONS;
  // Idle connections are closed to make room for new ones.
  server.on('drop', () => server.closeIdleConnections());
  server.on('checkExpectation', handle);
  server.on('connect', (_, socket: Duplex) => refuse(socket, 405, { Allow: 'GET, HEAD' }));
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, socket: Duplex) =>
    refuse(socket, REFUSALS[code] ?? 400),
  );
  return server;
}

async function listen(server: Server, address: string): Promise<void> {
  const [, host = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => reject(cannotListen(address, error));
    server.once('error', fail);
    server.listen({ port: Number(port), ...(host !== '' && { host }) }, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

async function reply(request: IncomingMessage, response: ServerResponse, routes: Routes): Promise<void> {
  const { method, url = '/', headers, httpVersion } = request;
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    return send(request, response, plain(405, 'GET and HEAD only'));
  }
  // RFC 9112, section 3.2.
  if (headers.host === undefined && httpVersion === '1.1')
    return send(request, response, plain(400, 'the header Host is missing'));
  if (url.length > MAX_URL_LENGTH) return send(request, response, plain(414, 'the URL is too long'));
  const [path = '', query = ''] = url.split('?');
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
  // Nothing of the request goes back to the client.
  if (route === undefined)
    return send(request, response, plain(404, `try ${Object.keys(routes).join(', ')}`));
  const names = new Set(query.split('&').map((part) => part.replace(/=.*/s, '')));
  send(request, response, await route({ query: names, accept: headers.accept ?? '' }));
}

/** A short answer in plain text. */
export function plain(status: number, line: string): Reply {
  return { status, type: 'text/plain; charset=utf-8', body: `${line}\n` };
}

function send({ method }: IncomingMessage, response: ServerResponse, { status, type, body }: Reply): void {
  if (response.headersSent) return;
  const bytes = Buffer.from(body);
  response.writeHead(status, { ...HEADERS, 'Content-Type': type, 'Content-Length': bytes.length });
  response.end(method === 'HEAD' ? undefined : bytes);
}

/** Answers on a socket without a request, and closes it. */
function refuse(socket: Duplex, status: number, headers: Readonly<Record<string, string>> = {}): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const all = { ...HEADERS, ...headers, Connection: 'close', 'Content-Length': '0' };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n`, () => socket.destroy());
}

/** The causes of error codes. */
const CAUSES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there, or another agent of this node',
  EADDRNOTAVAIL: 'the node has no such address',
  EACCES: 'a port below 1024 needs the capability NET_BIND_SERVICE',
};

function cannotListen(address: string, { code = '', message }: NodeJS.ErrnoException): SystemError {
  const cause = CAUSES[code] === undefined ? message : `${message} (${CAUSES[code]})`;
  const remedy = 'choose another --metrics-bind-address, or an empty one for no server';
  return new SystemError(`cannot listen on ${address}: ${cause}; ${remedy}`);
}
