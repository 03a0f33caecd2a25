import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LIMITS } from '../../../lib/status/limits.ts';
import {
  type Listener,
  plain,
  type Question,
  type Reply,
  type Routes,
  serve,
} from '../../../lib/status/server.ts';
import { SystemError } from '../../../lib/text/error.ts';

const SECURITY = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Lab extends AsyncDisposable {
  readonly port: number;
  readonly errors: readonly unknown[];
  /** Asks by HTTP, on a connection of its own. */
  get(path: string, options?: { readonly method?: string; readonly headers?: object }): Promise<Got>;
  /** Sends bytes and returns all that comes back until the server closes. */
  raw(text: string): Promise<string>;
}

const unexpected = (error: unknown) => assert.fail(String(error));

type Options = Partial<Pick<Listener, 'address' | 'lifeMs' | 'signal' | 'onTaken' | 'onListening'>>;

/** A server that must not fail. */
function listener(routes: Routes, options: Options = {}): Listener {
  return {
    address: '127.0.0.1:0',
    flag: '--metrics-bind-address',
    routes,
    signal: new AbortController().signal,
    onListening: () => {},
    onTaken: unexpected,
    onError: unexpected,
    ...options,
  };
}

async function startLab(routes: Routes, options: Options = {}): Promise<Lab> {
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
  return {
    port,
    errors,
    get: (path, { method = 'GET', headers = {} } = {}) => ask(host, port, path, method, headers),
    raw: (text) => exchange(port, text),
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      stop.abort();
      await closed;
    },
  };
}

function ask(host: string, port: number, path: string, method: string, headers: object): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host, port, path, method, headers: { ...headers }, agent: false });
    request.on('response', async (response) => {
      try {
        const body = (await response.setEncoding('utf8').toArray()).join('');
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body });
      } catch (error) {
        reject(error);
      }
    });
    request.on('error', reject).end();
  });
}

async function exchange(port: number, text: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' });
  let got = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    got += chunk;
  });
  // A server that closes while bytes are on their way resets the connection.
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.on('close', resolve));
  socket.write(text);
  await closed;
  return got;
}

function assertSecure(headers: IncomingHttpHeaders): void {
  for (const [name, value] of Object.entries(SECURITY)) assert.equal(headers[name], value, name);
}

/** The status of a raw answer, whose headers must be those of every answer. */
function rawStatus(answer: string): number {
  for (const [name, value] of Object.entries(SECURITY))
    assert.ok(answer.toLowerCase().includes(`${name}: ${value}`.toLowerCase()), `${name} in\n${answer}`);
  return Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
}

const ROUTES: Routes = { '/ok': () => plain(200, 'good'), '/other': () => plain(200, 'other') };

describe('the server', () => {
  it('answers a path, with security headers and the length of the body', async () => {
    await using lab = await startLab({ '/ü': () => plain(200, 'ü'), ...ROUTES });
    const { status, headers, body } = await lab.get('/ok');
    assert.deepEqual([status, body], [200, 'good\n']);
    assert.equal(headers['content-type'], 'text/plain; charset=utf-8');
    assert.equal(headers['content-length'], '5');
    assert.equal(headers['x-powered-by'], undefined);
    assertSecure(headers);
  });

  it('answers HEAD as GET, without the body', async () => {
    await using lab = await startLab(ROUTES);
    const { status, headers, body } = await lab.get('/ok', { method: 'HEAD' });
    assert.deepEqual([status, headers['content-length'], body], [200, '5', '']);
    assertSecure(headers);
    const answer = await lab.raw('HEAD /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    assert.ok(answer.endsWith('\r\n\r\n'));
  });

  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND']) {
    it(`answers ${method} with 405 and what is allowed`, async () => {
      await using lab = await startLab(ROUTES);
      const { status, headers } = await lab.get('/ok', { method });
      assert.deepEqual([status, headers.allow], [405, 'GET, HEAD']);
      assertSecure(headers);
    });
  }

  it('answers CONNECT with 405, and closes', async () => {
    await using lab = await startLab(ROUTES);
    const answer = await lab.raw('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n');
    assert.equal(rawStatus(answer), 405);
    assert.match(answer, /^Allow: GET, HEAD\r$/m);
  });

  it('does not switch protocols', async () => {
    await using lab = await startLab(ROUTES);
    const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket' };
    assert.equal((await lab.get('/ok', { headers: upgrade })).status, 200);
  });

  it('answers an expectation that it does not know as any request', async () => {
    await using lab = await startLab(ROUTES);
    const { status, headers } = await lab.get('/ok', { headers: { Expect: 'wonders' } });
    assert.equal(status, 200);
    assertSecure(headers);
  });

  for (const path of [
    '/',
    '/none-such',
    '/ok/',
    '//ok',
    '/OK',
    '/%6fk',
    '/../ok',
    '/<script>alert(1)</script>',
    '/__proto__',
    '/constructor',
    '/toString',
    'http://127.0.0.1/none-such',
  ]) {
    it(`answers ${path} with 404, the paths that there are, and nothing of the request`, async () => {
      await using lab = await startLab(ROUTES);
      const { status, headers, body } = await lab.get(path, { headers: { 'X-Reflect': 'reflected' } });
      assert.deepEqual([status, body], [404, 'try /ok, /other\n']);
      assert.doesNotMatch(JSON.stringify(headers), /reflected|script/);
      assertSecure(headers);
    });
  }

  it('answers a URL of more than 512 characters with 414', async () => {
    await using lab = await startLab(ROUTES);
    assert.equal((await lab.get(`/ok?${'x'.repeat(508)}`)).status, 200);
    const { status, headers } = await lab.get(`/ok?${'x'.repeat(509)}`);
    assert.equal(status, 414);
    assertSecure(headers);
  });

  it('answers headers of more than 8 KiB with 431', async () => {
    await using lab = await startLab(ROUTES);
    const request = (bytes: number) =>
      `GET /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ${'x'.repeat(bytes)}\r\n\r\n`;
    assert.equal(rawStatus(await lab.raw(request(7000))), 200);
    assert.equal(rawStatus(await lab.raw(request(9000))), 431);
  });

  it('takes the names in the query string, and the header Accept', async () => {
    const questions: Question[] = [];
    await using lab = await startLab({
      '/ok': (question) => {
        questions.push(question);
        return plain(200, 'ok');
      },
    });
    await lab.get('/ok', { headers: { Accept: 'text/plain' } });
    await lab.get('/ok?verbose');
    await lab.get('/ok?verbose=1&exclude=a=b&&__proto__=x');
    await lab.get('/ok?a?b');
    assert.deepEqual(
      questions.map(({ query, accept }) => [[...query].filter((name) => name !== ''), accept]),
      [
        [[], 'text/plain'],
        [['verbose'], ''],
        [['verbose', 'exclude', '__proto__'], ''],
        [['a'], ''],
      ],
    );
  });

  for (const [how, route] of [
    [
      'throws',
      () => {
        throw new Error('secret detail');
      },
    ],
    ['rejects', () => Promise.reject(new Error('secret detail'))],
  ] as const) {
    it(`answers 500 without details where a route ${how}, tells its owner, and goes on`, async () => {
      await using lab = await startLab({ ...ROUTES, '/bad': route });
      const { status, headers, body } = await lab.get('/bad');
      assert.deepEqual([status, body], [500, 'internal error, see the log\n']);
      assertSecure(headers);
      assert.match(String(lab.errors), /secret detail/);
      assert.equal((await lab.get('/ok')).status, 200);
    });
  }
});

describe('a connection', () => {
  const request = 'GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n';

  it('is for one request: 400 in one packet start the work for one, and close it', async () => {
    let served = 0;
    const waiting = Promise.withResolvers<Reply>();
    await using lab = await startLab({
      '/ok': () => {
        served += 1;
        return waiting.promise;
      },
    });
    assert.equal(await lab.raw(request.repeat(400)), '');
    waiting.resolve(plain(200, 'good'));
    assert.equal(served, 1);
    assert.deepEqual(lab.errors, []);
  });

  it('closes after its answer', async () => {
    await using lab = await startLab(ROUTES);
    assert.match(await lab.raw(request), /^Connection: close\r$[\s\S]*good\n$/m);
  });
});

describe('bound to loopback, the server', () => {
  for (const address of ['127.0.0.1:0', '[127.0.0.1]:0', '[::1]:0', '[0:0:0:0:0:0:0:1]:0']) {
    it(`on ${address} answers 421 to the name of a web site`, async () => {
      await using lab = await startLab(ROUTES, { address });
      const { status, headers, body } = await lab.get('/ok', { headers: { Host: 'rebound.example:9614' } });
      assert.deepEqual([status, body], [421, 'the header Host must be localhost or a loopback address\n']);
      assertSecure(headers);
    });
  }

  for (const [host, status] of [
    ['localhost', 200],
    ['LOCALHOST:9614', 200],
    ['127.0.0.1', 200],
    ['127.9.9.9:1', 200],
    ['[::1]', 200],
    ['[::1]:9614', 200],
    ['localhost.example', 421],
    ['127.0.0.1.example', 421],
    ['127.0.0.256', 421],
    ['10.0.0.1:9614', 421],
    ['[fe80::1]', 421],
    ['0.0.0.0', 421],
  ] as const) {
    it(`answers the Host ${host} with ${status}`, async () => {
      await using lab = await startLab(ROUTES);
      assert.equal((await lab.get('/ok', { headers: { Host: host } })).status, status);
    });
  }

  it('answers HTTP/1.0, which has no Host', async () => {
    await using lab = await startLab(ROUTES);
    assert.match(await lab.raw('GET /ok HTTP/1.0\r\n\r\n'), /good\n$/);
  });

  it('would answer any name on other addresses', async () => {
    await using lab = await startLab(ROUTES, { address: '0.0.0.0:0' });
    const { status } = await lab.get('/ok', { headers: { Host: 'node-1.example' } });
    assert.equal(status, 200);
  });
});

describe('garbage', () => {
  for (const [what, text] of [
    ['no HTTP', 'hello, server\r\n\r\n'],
    ['the hello of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['zero bytes', '\0'.repeat(100)],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a version that there is not', 'GET /ok HTTP/9.9\r\nHost: localhost\r\n\r\n'],
    ['a header without a colon', 'GET /ok HTTP/1.1\r\nHost x\r\n\r\n'],
    ['two lengths', 'GET /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
    [
      'a length and chunks, as smugglers send them',
      'GET /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['no header Host', 'GET /ok HTTP/1.1\r\nConnection: close\r\n\r\n'],
  ] as const) {
    it(`is answered with 400: ${what}`, async () => {
      await using lab = await startLab(ROUTES);
      assert.equal(rawStatus(await lab.raw(text)), 400);
      assert.equal((await lab.get('/ok')).status, 200);
      assert.deepEqual(lab.errors, []);
    });
  }

  it('of random bytes never stops the server', async () => {
    await using lab = await startLab(ROUTES);
    let seed = 1;
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed;
    };
    for (let round = 0; round < 200; round += 1) {
      const noise = String.fromCharCode(...Array.from({ length: random() % 200 }, () => random() % 256));
      // The line ends make an end of every request that the noise may begin.
      await lab.raw(`${round % 2 === 0 ? 'GET /ok HTTP/1.1\r\n' : ''}${noise}\r\n\r\n\r\n\0`);
    }
    assert.equal((await lab.get('/ok')).status, 200);
    assert.deepEqual(lab.errors, []);
  });

  it('that resets the connection in the middle of an answer is nobody’s error', async () => {
    const waiting = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    await using lab = await startLab({
      ...ROUTES,
      '/slow': async () => {
        asked.resolve();
        await waiting.promise;
        return plain(200, 'x'.repeat(1_000_000));
      },
    });
    const socket = connect({ port: lab.port, host: '127.0.0.1' }).on('error', () => {});
    socket.write('GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await asked.promise;
    socket.resetAndDestroy();
    waiting.resolve();
    assert.equal((await lab.get('/ok')).status, 200);
    assert.deepEqual(lab.errors, []);
  });
});

/** A twentieth of what any client is given in earnest. */
const LIFE_MS = 500;

describe('a client that takes too long', { concurrency: true }, () => {
  for (const [what, text, status] of [
    ['to send anything', '', 408],
    ['to send its request', 'GET /ok HTTP/1.1\r\nHost: localhost\r\n', 408],
    ['to send its body', 'POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf', 405],
    ['to send another request', 'GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n', 200],
  ] as const) {
    it(`${what} is dropped`, async () => {
      await using lab = await startLab(ROUTES, { lifeMs: LIFE_MS });
      assert.equal(rawStatus(await lab.raw(text)), status);
    });
  }

  it('by sending a byte now and then is dropped too', async () => {
    await using lab = await startLab(ROUTES, { lifeMs: LIFE_MS });
    // A byte that is written after the drop is an error of the socket, which closes it too.
    const socket = connect({ port: lab.port, host: '127.0.0.1' }).on('error', () => {});
    const closed = new Promise((resolve) => socket.on('close', resolve));
    const drip = setInterval(() => socket.write('X'), LIFE_MS / 10).unref();
    socket.resume().write('GET /ok HTTP/1.1\r\n');
    await closed;
    clearInterval(drip);
  });

  it('to read the answer is dropped', async () => {
    const big = 'x'.repeat(50_000_000);
    await using lab = await startLab({ '/big': () => plain(200, big) }, { lifeMs: LIFE_MS });
    const socket = connect({ port: lab.port, host: '127.0.0.1' });
    const ended = new Promise((resolve) => socket.on('close', resolve).on('error', resolve));
    socket.write('GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n');
    // Read far from all, then nothing until the server has had enough, then the rest of what it has sent.
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    await once(socket, 'data');
    socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 3 * LIFE_MS));
    socket.resume();
    await ended;
    assert.ok(bytes < big.length, `${bytes} bytes`);
  });

  it('and half of whose connection is closed gets its answer, and is not waited for', async () => {
    await using lab = await startLab(ROUTES, { lifeMs: LIFE_MS });
    const socket = connect({ port: lab.port, host: '127.0.0.1', allowHalfOpen: true });
    let got = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      got += chunk;
    });
    socket.end('GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(socket, 'end');
    assert.equal(rawStatus(got), 200);
    socket.destroy();
  });
});

describe('many clients', () => {
  it('are answered or refused, 1,000 at once, and other work gets its turns in between', async () => {
    let [inTurn, most, turns, isRunning] = [0, 0, 0, true];
    await using lab = await startLab({
      '/metrics': async () => {
        inTurn += 1;
        most = Math.max(most, inTurn);
        await turn();
        return plain(200, 'x'.repeat(20_000));
      },
    });
    const pace = (async () => {
      while (isRunning) {
        await turn();
        turns += 1;
        inTurn = 0;
      }
    })();
    const outcomes = await Promise.all(
      Array.from({ length: 1000 }, () =>
        lab.get('/metrics').then(
          ({ status, body }) => (status === 200 && body.length === 20_001 ? 'answered' : `${status}`),
          (error: NodeJS.ErrnoException) => error.code ?? String(error),
        ),
      ),
    );
    isRunning = false;
    await pace;
    const counts = Object.groupBy(outcomes, (outcome) => outcome);
    assert.ok((counts['answered']?.length ?? 0) >= 32, Object.keys(counts).join());
    const clean = ['answered', 'ECONNRESET', 'EPIPE', 'ECONNREFUSED'];
    assert.deepEqual(
      Object.keys(counts).filter((outcome) => !clean.includes(outcome)),
      [],
    );
    // No turn of the event loop serves more than the connections that there may be.
    assert.ok(most <= LIMITS.connections, `${most} requests in one turn`);
    assert.ok(turns > 10, `${turns} turns`);
    assert.equal((await lab.get('/metrics')).status, 200);
    assert.deepEqual(lab.errors, []);
  });

  it('leave no memory behind', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    await using lab = await startLab({ '/metrics': () => plain(200, 'x'.repeat(20_000)) });
    const scrape = async (rounds: number) => {
      for (let round = 0; round < rounds; round += 1)
        await Promise.all(Array.from({ length: 20 }, () => lab.get('/metrics')));
      await turn();
      collect();
      return process.memoryUsage().heapUsed;
    };
    const sizes: number[] = [];
    for (let block = 0; block < 6; block += 1) sizes.push(await scrape(50));
    const growth = sizes.slice(1).map((size, index) => size - (sizes[index] ?? 0));
    // 1,000 requests each: what is kept of every one would show each time, what else the process does only now and then.
    assert.ok(Math.min(...growth) < 50_000, `bytes more, each time: ${growth}`);
  });

  for (const [what, text] of [
    ['that send nothing', ''],
    ['that send half a request', 'GET /ok HTTP/1.1\r\nHost: localhost\r\n'],
    ['that do not read their answers', 'GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ] as const) {
    it(`${what} make room for others`, async () => {
      const never = Promise.withResolvers<Reply>();
      await using lab = await startLab({ ...ROUTES, '/slow': () => never.promise });
      const clients = Array.from({ length: LIMITS.connections + 10 }, () =>
        connect({ port: lab.port, host: '127.0.0.1' }),
      );
      const closed = Promise.all(
        clients.slice(0, 10).map(async (socket) => {
          await once(
            socket.on('error', () => {}),
            'close',
          );
        }),
      );
      for (const socket of clients) socket.on('error', () => {}).write(text);
      await closed;
      assert.equal((await lab.get('/ok')).status, 200);
      for (const socket of clients) socket.destroy();
    });
  }

  it('of which one has sent half a request lose that one first', async () => {
    await using lab = await startLab(ROUTES);
    const opened = async () => {
      const socket = connect({ port: lab.port, host: '127.0.0.1' }).on('error', () => {});
      await once(socket, 'connect');
      return socket;
    };
    const older = await opened();
    const half = await opened();
    await new Promise((resolve) => half.write('GET /ok HTTP/1.1\r\n', resolve));
    const newer = await Promise.all(Array.from({ length: LIMITS.connections - 2 }, opened));
    const closed = once(half.resume(), 'close');
    assert.equal((await lab.get('/ok')).status, 200);
    await closed;
    for (const socket of [older, ...newer]) {
      assert.equal(socket.readyState, 'open');
      socket.destroy();
    }
  });
});

describe('listening', () => {
  it('works on an IPv6 address', async () => {
    await using lab = await startLab(ROUTES, { address: '[::1]:0' });
    assert.equal((await lab.get('/ok')).status, 200);
  });

  it('works on all addresses where none is named', async () => {
    await using lab = await startLab(ROUTES, { address: ':0' });
    assert.match(await lab.raw('GET /ok HTTP/1.0\r\n\r\n'), /good\n$/);
  });

  it('waits for a busy port, says so with each attempt, and serves as soon as the port is free', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const stop = new AbortController();
    const taken: SystemError[] = [];
    const listening = Promise.withResolvers<void>();
    const onTaken = (error: SystemError) => {
      taken.push(error);
      if (taken.length === 2) other.close();
    };
    const { signal } = stop;
    const server = await serve(
      listener(ROUTES, { address, signal, onTaken, onListening: listening.resolve }),
    );
    assert.equal(server.listening, false);
    const awake = setInterval(() => {}, 1_000);
    await listening.promise;
    clearInterval(awake);
    assert.equal(server.listening, true);
    assert.equal(taken.length, 2);
    assert.match(taken[0]?.message ?? '', /^cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/);
    assert.match(
      taken[0]?.message ?? '',
      /another agent of this node\); choose another --metrics-bind-address, or an empty one/,
    );
    stop.abort();
  });

  it('fails at an address that the node does not have with an error that says what to do', async () => {
    await assert.rejects(serve(listener(ROUTES, { address: '192.0.2.77:0' })), (error) => {
      assert.ok(error instanceof SystemError);
      assert.match(error.message, /^cannot listen on 192\.0\.2\.77:0: /);
      return true;
    });
  });

  it('ends at the signal, open connections included', async () => {
    const stop = new AbortController();
    // So long that to wait for the client would have no end.
    const server = await serve(listener(ROUTES, { signal: stop.signal, lifeMs: 3_600_000 }));
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
