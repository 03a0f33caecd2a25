import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { gzipSync } from 'node:zlib';
import { errorCode, errorMessage, isExhausted, SystemError } from '../text/error.ts';
import { LIMITS, limitConnections } from './limits.ts';

export interface HttpReply {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
}

/** The part of a request that an answer may depend on. */
interface Question {
  /** The names in the query string; values are ignored. */
  readonly query: ReadonlySet<string>;
}

export type Routes = Readonly<Record<string, (question: Question) => Promise<HttpReply> | HttpReply>>;

export interface Listener {
  /** `host:port`; no host means all addresses. */
  readonly address: string;
  readonly flag: string;
  readonly routes: Routes;
  readonly signal: AbortSignal;
  readonly onListening: () => void;
  /** It cannot listen now; there will be another attempt. */
  readonly onFailure: (error: SystemError) => void;
  /** Receives the error of a route, which the client does not see, or of the server. */
  readonly onError: (error: unknown) => void;
  readonly patienceMs?: number;
}

/** The pauses between attempts to listen: short enough for a startup probe, which waits for two minutes. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/** Text only, and no cache. One request for each connection. */
const HEADERS = { 'Cache-Control': 'no-store', Connection: 'close', 'X-Content-Type-Options': 'nosniff' };

/** Bytes of an answer that is not worth to be compressed. */
const LONGEST_PLAIN = 1024;

/**
 * Serves GET and HEAD on an address until the signal aborts. While another program has the port, or the node does not have the
 * address yet, it tries again in the background: neither must end the agent.
 *
 * @throws {SystemError} if the agent cannot listen there for another reason
 */
export async function serve(listener: Listener): Promise<Server> {
  const server = createLimitedServer(listener);
  listener.signal.addEventListener('abort', () => {
    server.close();
    server.closeAllConnections();
  });
  // The server alone must not keep the process alive.
  server.unref();
  await listen(server, listener, FIRST_PAUSE_MS);
  return server;
}

function createLimitedServer({ routes, onError, patienceMs = LIMITS.patienceMs }: Listener): Server {
  const server = createServer({
    maxHeaderSize: LIMITS.headers,
    requestTimeout: patienceMs,
    headersTimeout: patienceMs,
    // Each check wakes an idle agent.
    connectionsCheckingInterval: 3 * patienceMs,
  });
  // Node.js reads all requests of a packet at once.
  server.maxRequestsPerSocket = 1;
  limitConnections(server);
  const handle: RequestListener = async (request, response) => {
    response.setTimeout(patienceMs);
    const { status, type, body } = await answer(request, routes).catch((error: unknown) => {
      onError(error);
      return plain(500, 'internal error, see the log');
    });
    const isZipped = body.length > LONGEST_PLAIN && takesGzip(request);
    const sent = isZipped ? gzipSync(body) : body;
    const own = {
      'Content-Type': type,
      'Content-Length': sent.length,
      ...(isZipped && { 'Content-Encoding': 'gzip' }),
      ...(status === 405 && { Allow: 'GET, HEAD' }),
    };
    response.writeHead(status, { ...HEADERS, ...own });
    // Node.js leaves out the body of an answer to HEAD.
    return response.end(sent);
  };
  server.on('request', handle);
  return server;
}

/** Whether the client takes gzip (RFC 9110, 12.5.3), as Prometheus does. */
function takesGzip({ headers }: IncomingMessage): boolean {
  return /\bgzip\b(?! *; *q=0(?:\.0*)?(?:,|$))/.test(String(headers['accept-encoding'] ?? ''));
}

/** Listens, or tries again after a pause. Only the first attempt throws. */
async function listen(server: Server, listener: Listener, pause: number): Promise<void> {
  const { address, flag, signal, onListening, onFailure, onError } = listener;
  if (signal.aborted) return;
  try {
    const [port] = /\d+$/.exec(address) ?? [];
    await once(
      server.listen({ port: Number(port), host: hostOf(address) || undefined, backlog: LIMITS.backlog }),
      'listening',
    );
  } catch (error) {
    const failure = cannotListen(address, flag, error);
    const mayPass = ['EADDRINUSE', 'EADDRNOTAVAIL'].includes(errorCode(error) ?? '') || isExhausted(error);
    if (pause === FIRST_PAUSE_MS && !mayPass) throw failure;
    onFailure(failure);
    setTimeout(() => listen(server, listener, Math.min(2 * pause, LONGEST_PAUSE_MS)), pause).unref();
    return;
  }
  server.on('error', onError);
  onListening();
}

async function answer({ method, url = '/' }: IncomingMessage, routes: Routes): Promise<HttpReply> {
  if (method !== 'GET' && method !== 'HEAD') return plain(405, 'GET and HEAD only');
  if (url.length > LIMITS.url) return plain(414, 'the URL is too long');
  const [path = '', query = ''] = url.split('?');
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
  // Nothing of the request goes back to the client.
  if (route === undefined) return plain(404, `try ${Object.keys(routes).join(', ')}`);
  return route({ query: new Set(query.split('&').map((part) => part.replace(/=.*/s, ''))) });
}

export function reply(status: number, type: string, text: string): HttpReply {
  return { status, type, body: Buffer.from(text) };
}

export function plain(status: number, line: string): HttpReply {
  return reply(status, 'text/plain; charset=utf-8', `${line}\n`);
}

/** The host of `host`, `host:port` or `[host]:port`. */
function hostOf(text: string): string {
  return /^\[?(.*?)\]?(?::\d+)?$/.exec(text)?.[1] ?? '';
}

const CAUSES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there, or another agent of this node',
  EADDRNOTAVAIL: 'the node has no such address yet, or IPv6 still checks that no other host has it',
  EACCES: 'a port below 1024 needs the capability NET_BIND_SERVICE',
};

function cannotListen(address: string, flag: string, error: unknown): SystemError {
  const message = errorMessage(error);
  const cause = CAUSES[errorCode(error) ?? ''];
  const why = cause === undefined ? message : `${message} (${cause})`;
  const remedy = `choose another ${flag}, or an empty one for no server`;
  return new SystemError(`cannot listen on ${address}: ${why}; ${remedy}`);
}
