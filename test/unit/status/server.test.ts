import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { LIMITS } from '../../../lib/status/limits.ts';
import { type HttpReply, type Listener, plain, type Routes, serve } from '../../../lib/status/server.ts';
import { SystemError } from '../../../lib/text/error.ts';

const SECURITY = ['Cache-Control: no-store', 'Connection: close', 'X-Content-Type-Options: nosniff'];

const unexpected = (error: unknown) => assert.fail(String(error));

type Options = Partial<Pick<Listener, 'address' | 'patienceMs' | 'signal' | 'onFailure' | 'onListening'>>;

/** A server that must not fail. */
function listener(routes: Routes, options: Options = {}): Listener {
  return {
    address: '127.0.0.1:0',
    flag: '--metrics-bind-address',
    routes,
    signal: new AbortController().signal,
    onListening: () => {},
    onFailure: unexpected,
    onError: unexpected,
    ...options,
  };
}

const ROUTES: Routes = { '/ok': () => plain(200, 'good'), '/other': () => plain(200, 'ü') };

async function startLab(routes: Routes = ROUTES, options: Options = {}) {
  const stop = new AbortController();
  const errors: unknown[] = [];
  const { signal } = stop;
  const server = await serve({
    ...listener(routes, { signal, ...options }),
    onError: (error) => errors.push(error),
  });
  // Here nothing else keeps the process alive.
  server.ref();
  const { port, address: host } = server.address() as AddressInfo;
  /** A connection whose errors are nobody's. */
  const open = () => connect({ port, host }).on('error', () => {});
  return {
    server,
    errors,
    open,
    /** Sends bytes and returns all that comes back until the server closes. */
    ask: async (text: string) => {
      const socket = open();
      let got = '';
      socket.setEncoding('utf8').on('data', (chunk: string) => {
        got += chunk;
      });
      const closed = new Promise((resolve) => socket.on('close', resolve));
      socket.write(text, 'latin1');
      await closed;
      return got;
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      stop.abort();
      await closed;
    },
  };
}

function request(line: string, ...headers: readonly string[]): string {
  return `${line} HTTP/1.1\r\n${['Host: localhost', ...headers].join('\r\n')}\r\n\r\n`;
}

const OK = request('GET /ok');

/** What Node.js refuses before there is a request. */
const REFUSED = [400, 408, 417, 431];

/** The status of an answer, whose headers must be those of every answer. */
function statusOf(answer: string): number {
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
  for (const header of REFUSED.includes(status) ? [] : SECURITY)
    assert.ok(answer.includes(`\r\n${header}\r\n`), `${header} in\n${answer}`);
  return status;
}

const ALLOW = /^Allow: GET, HEAD\r$/m;
const NOT_FOUND = /^(?!.*(?:reflect|script)).*\r\n\r\ntry \/ok, \/other\n$/s;

const ANSWERED: readonly (readonly [what: string, text: string, status: number, says?: RegExp])[] = [
  ['GET', OK, 200, /^(?!.*X-Powered).*\nContent-Type: text\/plain; charset=utf-8\r\n.*\n\r\ngood\n$/s],
  ['GET, with the length in bytes', request('GET /other'), 200, /^Content-Length: 3\r$/m],
  ['HEAD, without the body', request('HEAD /ok'), 200, /\nContent-Length: 5\r\n.*\r\n\r\n$/s],
  ...['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'].map(
    (method) => [method, request(`${method} /ok`), 405, ALLOW] as const,
  ),
  ['another protocol', request('GET /ok', 'Connection: Upgrade', 'Upgrade: websocket'), 200],
  // Else Node.js keeps the connection open for five seconds more.
  ['an unknown expectation', request('GET /ok', 'Expect: wonders', 'Connection: close'), 417],
  ...['/', '/none-such', '/ok/', '//ok', '/OK', '/%6fk', '/../ok', '/<script>alert(1)</script>'].map(
    (path) => [path, request(`GET ${path}`, 'X-Reflect: reflected'), 404, NOT_FOUND] as const,
  ),
  ...['/__proto__', '/constructor', '/toString', 'http://127.0.0.1/none-such'].map(
    (path) => [path, request(`GET ${path}`), 404, NOT_FOUND] as const,
  ),
  ['512 characters of URL', request(`GET /ok?${'x'.repeat(508)}`), 200],
  ['513 characters of URL', request(`GET /ok?${'x'.repeat(509)}`), 414],
  ['7 KB of headers', request('GET /ok', `X: ${'x'.repeat(7000)}`), 200],
  ['9 KB of headers', request('GET /ok', `X: ${'x'.repeat(9000)}`), 431],
  ['HTTP/1.0, which has no Host', 'GET /ok HTTP/1.0\r\n\r\n', 200],
  ['no Host', 'GET /ok HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
  ...Object.entries({
    'no HTTP': 'hello, server\r\n\r\n',
    'the hello of TLS': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'zero bytes': '\0'.repeat(100),
    'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'a version that there is not': OK.replace('1.1', '9.9'),
    'a header without a colon': request('GET /ok', 'X y'),
    'two lengths': request('GET /ok', 'Content-Length: 1', 'Content-Length: 2'),
    'a length and chunks, as smugglers send them': `${request('GET /ok', 'Content-Length: 4', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
  }).map(([what, text]) => [what, text, 400] as const),
];

describe('a large answer', () => {
  it('is compressed for a client that takes it, such as Prometheus, and for no other', async () => {
    await using lab = await startLab({ '/large': () => plain(200, 'x'.repeat(10_000)) });
    for (const [header, length] of [
      ['Accept-Encoding: gzip', 100],
      ['Accept-Encoding: deflate, gzip;q=0.5', 100],
      ['Accept-Encoding: gzip;q=0', 10_001],
      ['X: y', 10_001],
    ] as const) {
      const answer = await lab.ask(request('GET /large', header));
      const [, bytes = ''] = /^Content-Length: (\d+)\r$/m.exec(answer) ?? [];
      assert.ok(Number(bytes) <= length && Number(bytes) > length / 5, `${header}: ${bytes}`);
      assert.equal(/^Content-Encoding: gzip\r$/m.test(answer), length === 100, header);
    }
  });
});

describe('the server', () => {
  for (const [what, text, status, says = /^/] of ANSWERED)
    it(`answers ${what} with ${status}, and goes on`, async () => {
      await using lab = await startLab();
      const answer = await lab.ask(text);
      assert.equal(statusOf(answer), status);
      assert.match(answer, says);
      assert.match(await lab.ask(OK), /good\n$/);
      assert.deepEqual(lab.errors, []);
    });

  for (const [how, route] of [
    ['throws', () => assert.fail('secret detail')],
    ['rejects', () => Promise.reject(new Error('secret detail'))],
  ] as const)
    it(`answers 500 without details where a route ${how}, tells its owner, and goes on`, async () => {
      await using lab = await startLab({ ...ROUTES, '/bad': route });
      const answer = await lab.ask(request('GET /bad'));
      assert.equal(statusOf(answer), 500);
      assert.match(answer, /\r\n\r\ninternal error, see the log\n$/);
      assert.match(String(lab.errors), /secret detail/);
      assert.match(await lab.ask(OK), /good\n$/);
    });

  it('starts the work for one of 400 requests in one packet, and closes the connection', async () => {
    let served = 0;
    const waiting = Promise.withResolvers<HttpReply>();
    await using lab = await startLab({
      '/ok': () => {
        served += 1;
        return waiting.promise;
      },
    });
    const asked = lab.ask(OK.repeat(400));
    await once(lab.server, 'dropRequest');
    waiting.resolve(plain(200, 'good'));
    assert.match(await asked, /^HTTP\/1\.1 200 .*\r\n\r\ngood\n$/s);
    assert.equal(served, 1);
    assert.deepEqual(lab.errors, []);
  });

  for (const address of ['127.0.0.1:0', '[::1]:0', '0.0.0.0:0', ':0'])
    it(`on ${address} answers any name`, async () => {
      await using lab = await startLab(ROUTES, { address });
      assert.match(await lab.ask(OK.replace('localhost', 'node-1.example')), /good\n$/);
    });
});

/** A tenth of what any client is given in earnest. */
const PATIENCE_MS = 1_000;

describe('a client that takes too long', { concurrency: true }, () => {
  for (const [what, text, status] of [
    ['to send anything', '', 408],
    ['to send its request', 'GET /ok HTTP/1.1\r\nHost: localhost\r\n', 408],
    ['to send its body', `${request('POST /ok', 'Content-Length: 100')}half`, 405],
    ['to send another request', OK, 200],
  ] as const) {
    it(`${what} is dropped`, async () => {
      // An answer comes when the machine has time for it.
      await using lab = await startLab(ROUTES, status === 200 ? {} : { patienceMs: PATIENCE_MS });
      assert.equal(statusOf(await lab.ask(text)), status);
    });
  }

  it('by sending a byte now and then is dropped too', async () => {
    await using lab = await startLab(ROUTES, { patienceMs: PATIENCE_MS });
    // A byte that is written after the drop is an error of the socket, which closes it too.
    const socket = lab.open();
    const closed = new Promise((resolve) => socket.on('close', resolve));
    const drip = setInterval(() => socket.write('X'), PATIENCE_MS / 10).unref();
    socket.resume().write('GET /ok HTTP/1.1\r\n');
    await closed;
    clearInterval(drip);
  });

  it('to read the answer is dropped', async () => {
    const big = 'x'.repeat(50_000_000);
    await using lab = await startLab({ '/big': () => plain(200, big) }, { patienceMs: PATIENCE_MS });
    const socket = lab.open();
    const ended = new Promise((resolve) => socket.on('close', resolve));
    socket.write(request('GET /big'));
    // Read far from all, then nothing until the server has had enough, then the rest of what it has sent.
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    await once(socket, 'data');
    socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 3 * PATIENCE_MS));
    socket.resume();
    await ended;
    assert.ok(bytes < big.length, `${bytes} bytes`);
  });

  it('and half of whose connection is closed gets its answer, and is not waited for', async () => {
    await using lab = await startLab();
    const socket = lab.open();
    socket.allowHalfOpen = true;
    socket.end(OK);
    assert.equal(statusOf((await socket.setEncoding('utf8').toArray()).join('')), 200);
    socket.destroy();
  });
});

const BODY = 'x'.repeat(20_000);

describe('many clients', () => {
  it('are answered or refused, 1,000 at once, and other work gets its turns in between', async () => {
    let [inTurn, most, turns, isRunning] = [0, 0, 0, true];
    await using lab = await startLab({
      '/metrics': async () => {
        inTurn += 1;
        most = Math.max(most, inTurn);
        await turn();
        return plain(200, BODY);
      },
    });
    const pace = (async () => {
      while (isRunning) {
        await turn();
        turns += 1;
        inTurn = 0;
      }
    })();
    const outcomeOf = (answer: string) => {
      if (answer !== '' && statusOf(answer) !== 200) return answer;
      return answer.endsWith(`\n${BODY}\n`) ? 'answered' : 'refused';
    };
    const asked = Array.from({ length: 1000 }, () => lab.ask(request('GET /metrics')).then(outcomeOf));
    const outcomes = await Promise.all(asked);
    isRunning = false;
    await pace;
    const counts = Object.groupBy(outcomes, (outcome) => outcome);
    const { answered = [], refused: _, ...others } = counts;
    assert.ok(answered.length >= 32, `${answered.length} answered`);
    assert.deepEqual(Object.keys(others), []);
    // No turn of the event loop serves more than the connections that there may be.
    assert.ok(most <= LIMITS.connections, `${most} requests in one turn`);
    assert.ok(turns > 10, `${turns} turns`);
    assert.equal(statusOf(await lab.ask(request('GET /metrics'))), 200);
    assert.deepEqual(lab.errors, []);
  });

  for (const [what, text] of [
    ['that send nothing', ''],
    ['that send half a request', 'GET /ok HTTP/1.1\r\nHost: localhost\r\n'],
    ['that do not read their answers', request('GET /slow')],
  ] as const) {
    it(`${what} make room for others`, async () => {
      const never = Promise.withResolvers<HttpReply>();
      await using lab = await startLab({ ...ROUTES, '/slow': () => never.promise });
      const clients = Array.from({ length: LIMITS.connections + 10 }, lab.open);
      const closed = Promise.all(clients.slice(0, 10).map((socket) => once(socket, 'close')));
      for (const socket of clients) socket.write(text);
      await closed;
      assert.match(await lab.ask(OK), /good\n$/);
      for (const socket of clients) socket.destroy();
    });
  }
});

describe('listening', { concurrency: true }, () => {
  it('waits for a busy port, says so with each attempt, and serves as soon as the port is free', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const stop = new AbortController();
    const taken: SystemError[] = [];
    const listening = Promise.withResolvers<void>();
    const onFailure = (error: SystemError) => {
      taken.push(error);
      if (taken.length === 2) other.close();
    };
    const { signal } = stop;
    const server = await serve(
      listener(ROUTES, { address, signal, onFailure, onListening: listening.resolve }),
    );
    assert.equal(server.listening, false);
    const awake = setInterval(() => {}, 1_000);
    await listening.promise;
    clearInterval(awake);
    assert.equal(server.listening, true);
    assert.equal(taken.length, 2);
    const message = taken[0]?.message ?? '';
    assert.match(message, /^cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/);
    assert.match(message, /another agent of this node\); choose another --metrics-bind-address, or an empty/);
    stop.abort();
  });

  it('fails at an address without the link that it needs with an error that says what to do', async () => {
    const serving = serve(listener(ROUTES, { address: '[fe80::1]:0' }));
    await assert.rejects(serving, {
      constructor: SystemError,
      message: /^cannot listen on \[fe80::1\]:0: /,
    });
  });

  it('ends at the signal, open connections included', async () => {
    const stop = new AbortController();
    // So long that to wait for the client would have no end.
    const server = await serve(listener(ROUTES, { signal: stop.signal, patienceMs: 3_600_000 }));
    const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
    socket.on('error', () => {}).write('GET /ok HTTP/1.1\r\nHost: localhost\r\n');
    await once(server, 'connection');
    const closed = Promise.all([once(server, 'close'), once(socket, 'close')]);
    stop.abort();
    await closed;
  });

  it('does not outlive a signal that came before', async () => {
    const server = await serve(listener(ROUTES, { signal: AbortSignal.abort() }));
    assert.equal(server.listening, false);
  });
});
