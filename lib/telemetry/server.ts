import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { ListenError } from './listen-error.ts';

/** What a path answers. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

/** The part of a request that an answer may depend on. */
export interface Question {
  /** Names in the query string, their values passed over. */
  readonly query: ReadonlySet<string>;
  readonly accept: string;
}

export type Routes = Readonly<Record<string, (question: Question) => Promise<Answer> | Answer>>;

const MAX_URL_LENGTH = 512;

/** A scrape and a few people; whoever asks for more waits. */
const MAX_CONNECTIONS = 32;

/** No script, no foreign content, no framing, no cache: what is shown is of this moment and of this node. */
const HEADERS: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/**
 * Serves GET and HEAD on an address until the signal aborts.
 *
 * @param address `host:port`; no host means all addresses
 * @param onError gets what a route has failed with, which the client does not see
 * @throws {ListenError}
 */
export async function serve(
  address: string,
  routes: Routes,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<Server> {
  const server = createServer(
    { maxHeaderSize: 8 * 1024, headersTimeout: 5_000, requestTimeout: 5_000, keepAliveTimeout: 5_000 },
    (request, response) => {
      reply(request, response, routes).catch((error: unknown) => {
        onError(error);
        send(request, response, plain(500, 'internal error, see the log'));
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  server.maxRequestsPerSocket = 1000;
  const [, host = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(address, error)));
    server.listen({ port: Number(port), ...(host !== '' && { host }) }, resolve);
  });
  server.on('error', onError);
  signal.addEventListener('abort', () => {
    server.close();
    server.closeAllConnections();
  });
  // The server alone does not keep the process alive: what it tells about does.
  server.unref();
  return server;
}

async function reply(request: IncomingMessage, response: ServerResponse, routes: Routes): Promise<void> {
  const { method, url = '/', headers } = request;
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    return send(request, response, plain(405, 'GET and HEAD only'));
  }
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
export function plain(status: number, line: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', body: `${line}\n` };
}

function send({ method }: IncomingMessage, response: ServerResponse, { status, type, body }: Answer): void {
  if (response.headersSent) return;
  const bytes = Buffer.from(body);
  response.writeHead(status, { ...HEADERS, 'Content-Type': type, 'Content-Length': bytes.length });
  response.end(method === 'HEAD' ? undefined : bytes);
}

function listenError(address: string, { code, message }: NodeJS.ErrnoException): ListenError {
  const remedy =
    code === 'EADDRINUSE'
      ? 'another program listens there, or another agent of this node: choose another --metrics-bind-address'
      : 'choose another --metrics-bind-address, or an empty one for no server';
  return new ListenError(`cannot listen on ${address}: ${message}; ${remedy}`);
}
