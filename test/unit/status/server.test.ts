import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { plain, type Question, type Routes, serve } from '../../../lib/status/server.ts';
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

async function startLab(routes: Routes, address = '127.0.0.1:0', stepMs = 10_000): Promise<Lab> {
  const stop = new AbortController();
  const errors: unknown[] = [];
  const server = await serve(address, routes, stop.signal, (error) => errors.push(error), stepMs);
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

const unexpected = (error: unknown) => assert.fail(String(error));

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
    const answer = await lab.raw('HEAD /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
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
      `GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ${'x'.repeat(bytes)}\r\n\r\n`;
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

describe('garbage', () => {
  for (const [what, text] of [
    ['no HTTP', 'hello, server\r\n\r\n'],
    ['the hello of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['zero bytes', '\0'.repeat(100)],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a version that there is not', 'GET /ok HTTP/9.9\r\nHost: x\r\n\r\n'],
    ['a header without a colon', 'GET /ok HTTP/1.1\r\nHost x\r\n\r\n'],
    ['two lengths', 'GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
    [
      'a length and chunks, as smugglers send them',
      'GET /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
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
    socket.write('GET /slow HTTP/1.1\r\nHost: x\r\n\r\n');
    await asked.promise;
    socket.resetAndDestroy();
    waiting.resolve();
    assert.equal((await lab.get('/ok')).status, 200);
    assert.deepEqual(lab.errors, []);
  });
});

/** A tenth of what any client is given in earnest. */
const STEP_MS = 500;

describe('a client that takes too long', { concurrency: true }, () => {
  for (const [what, text, status] of [
    ['to send anything', '', 408],
    ['to send its request', 'GET /ok HTTP/1.1\r\nHost: x\r\n', 408],
    ['to send its body', 'POST /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf', 405],
    ['to send another request', 'GET /ok HTTP/1.1\r\nHost: x\r\n\r\n', 200],
  ] as const) {
    it(`${what} is dropped`, async () => {
      await using lab = await startLab(ROUTES, '127.0.0.1:0', STEP_MS);
      assert.equal(rawStatus(await lab.raw(text)), status);
    });
  }

  it('by sending a byte now and then is dropped too', async () => {
    await using lab = await startLab(ROUTES, '127.0.0.1:0', STEP_MS);
    const socket = connect({ port: lab.port, host: '127.0.0.1' }).on('error', () => {});
    const drip = setInterval(() => socket.write('X'), STEP_MS / 10).unref();
    socket.resume().write('GET /ok HTTP/1.1\r\n');
    try {
      await once(socket, 'close');
    } finally {
      clearInterval(drip);
    }
  });

  it('to read the answer is dropped', async () => {
    const big = 'x'.repeat(50_000_000);
    await using lab = await startLab({ '/big': () => plain(200, big) }, '127.0.0.1:0', STEP_MS);
    const socket = connect({ port: lab.port, host: '127.0.0.1' });
    const ended = new Promise((resolve) => socket.on('close', resolve).on('error', resolve));
    socket.write('GET /big HTTP/1.1\r\nHost: x\r\n\r\n');
    // Read far from all, then nothing until the server has had enough, then the rest of what it has sent.
    let bytes = 0;
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    await once(socket, 'data');
    socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 3 * STEP_MS));
    socket.resume();
    await ended;
    assert.ok(bytes < big.length, `${bytes} bytes`);
  });

  it('and half of whose connection is closed gets its answer, and is not waited for', async () => {
    await using lab = await startLab(ROUTES, '127.0.0.1:0', STEP_MS);
    const socket = connect({ port: lab.port, host: '127.0.0.1', allowHalfOpen: true });
    let got = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      got += chunk;
    });
    socket.end('GET /ok HTTP/1.1\r\nHost: x\r\n\r\n');
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
    assert.ok(most <= 32, `${most} requests in one turn`);
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

  it('that only keep their connections make room for others', async () => {
    await using lab = await startLab(ROUTES);
    const idle = Array.from({ length: 32 }, () => connect({ port: lab.port, host: '127.0.0.1' }));
    await Promise.all(
      idle.map(async (socket) => {
        socket.on('error', () => {}).write('GET /ok HTTP/1.1\r\nHost: x\r\n\r\n');
        await once(socket, 'data');
      }),
    );
    await assert.rejects(lab.get('/ok'));
    assert.equal((await lab.get('/ok')).status, 200);
  });
});

describe('listening', () => {
  it('works on an IPv6 address', async () => {
    await using lab = await startLab(ROUTES, '[::1]:0');
    assert.equal((await lab.get('/ok')).status, 200);
  });

  it('works on all addresses where none is named', async () => {
    await using lab = await startLab(ROUTES, ':0');
    assert.match(await lab.raw('GET /ok HTTP/1.0\r\n\r\n'), /good\n$/);
  });

  it('fails at a busy port with an error that names the address and what to do', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const { signal } = new AbortController();
    await assert.rejects(serve(address, ROUTES, signal, unexpected), (error) => {
      assert.ok(error instanceof SystemError);
      assert.match(error.message, /^cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE/);
      assert.match(
        error.message,
        /another agent of this node\); choose another --metrics-bind-address, or an empty one/,
      );
      return true;
    });
    other.close();
  });

  it('fails at an address that the node does not have with an error that says what to do', async () => {
    const { signal } = new AbortController();
    await assert.rejects(serve('192.0.2.77:0', ROUTES, signal, unexpected), (error) => {
      assert.ok(error instanceof SystemError);
      assert.match(error.message, /^cannot listen on 192\.0\.2\.77:0: /);
      return true;
    });
  });

  it('ends at the signal, open connections included', async () => {
    const stop = new AbortController();
    const server = await serve('127.0.0.1:0', ROUTES, stop.signal, unexpected);
    const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
    await once(socket, 'connect');
    socket.on('error', () => {}).write('GET /ok HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
    const closed = Promise.all([once(server, 'close'), once(socket, 'close')]);
    stop.abort();
    await closed;
  });

  it('does not outlive a signal that came before', async () => {
    const server = await serve('127.0.0.1:0', ROUTES, AbortSignal.abort(), unexpected);
    assert.equal(server.listening, false);
  });
});
