import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { Box } from '../lab/box.ts';
import { temporaryDirectory } from '../lab/volume.ts';

/** A headless Chromium in a box. */
export interface Browser extends AsyncDisposable {
  /** Loads a page in a window of this width. */
  open(url: string, width: number): Promise<Evaluate>;
  /** A picture of the whole page in PNG, for people who prefer this colour scheme. */
  picture(url: string, width: number, scheme: 'light' | 'dark'): Promise<Buffer>;
}

/** Returns the value of a JavaScript expression in the page, which must be one that JSON can hold. */
type Evaluate = <Value>(expression: string) => Promise<Value>;

const FLAGS = [
  ...['--headless', '--remote-debugging-pipe', '--no-first-run', '--disable-gpu', '--hide-scrollbars'],
  // A container often has neither a sandbox nor a large /dev/shm.
  ...['--no-sandbox', '--disable-dev-shm-usage'],
  // The box has no way out: nothing waits for an answer from outside.
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'],
];

/** Starts Chromium with a profile of its own. */
export async function startChromium(box: Box): Promise<Browser> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const child = box.spawn('chromium', [...FLAGS, `--user-data-dir=${path}/profile`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    env: { HOME: path },
  });
  await once(child, 'spawn');
  const ended = once(child, 'exit');
  const [, , , input, output] = child.stdio as unknown as [null, null, null, Writable, Readable];
  const devtools = connect(input, output);
  stack.defer(async () => {
    devtools.ask('Browser.close').catch(() => {}); // it may end before it answers
    await ended; // its processes write to the profile until then
  });
  const owned = stack.move();
  return {
    open: async (url, width) => (await open(devtools, url, width)).evaluate,
    picture: (url, width, scheme) => picture(devtools, url, width, scheme),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

type Ask = <Result>(method: string, params?: object) => Promise<Result>;

async function picture(
  devtools: Devtools,
  url: string,
  width: number,
  scheme: 'light' | 'dark',
): Promise<Buffer> {
  const { ask, evaluate } = await open(devtools, url, width);
  const features = [{ name: 'prefers-color-scheme', value: scheme }];
  await ask('Emulation.setEmulatedMedia', { features });
  const height = await evaluate<number>('document.documentElement.scrollHeight');
  const clip = { x: 0, y: 0, width, height, scale: 1 };
  const options = { format: 'png', captureBeyondViewport: true, clip };
  const { data } = await ask<{ data: string }>('Page.captureScreenshot', options);
  return Buffer.from(data, 'base64');
}

async function open(
  devtools: Devtools,
  url: string,
  width: number,
): Promise<{ readonly ask: Ask; readonly evaluate: Evaluate }> {
  const { targetId } = await devtools.ask<{ targetId: string }>('Target.createTarget', {
    url: 'about:blank',
  });
  const attachment = { targetId, flatten: true };
  const { sessionId } = await devtools.ask<{ sessionId: string }>('Target.attachToTarget', attachment);
  const ask: Ask = <Result>(method: string, params?: object) =>
    devtools.ask<Result>(method, params, sessionId);
  const size = { width, height: 800, deviceScaleFactor: 1, mobile: width < 600 };
  await ask('Emulation.setDeviceMetricsOverride', size);
  await ask('Page.enable');
  const loaded = devtools.event('Page.loadEventFired', sessionId);
  const { errorText } = await ask<{ errorText?: string }>('Page.navigate', { url });
  if (errorText !== undefined) throw new Error(`Chromium cannot open ${url}: ${errorText}`);
  await loaded;
  const evaluate = async <Value>(expression: string) => {
    const options = { expression, returnByValue: true };
    const { result, exceptionDetails } = await ask<Evaluation<Value>>('Runtime.evaluate', options);
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return result.value;
  };
  return { ask, evaluate };
}

interface Evaluation<Value> {
  readonly result: { readonly value: Value };
  readonly exceptionDetails?: unknown;
}

/** The Chrome DevTools Protocol. */
interface Devtools {
  /** Rejects if the browser refuses, or is gone. */
  ask<Result>(method: string, params?: object, sessionId?: string): Promise<Result>;
  /** The next event of the name. */
  event(method: string, sessionId: string): Promise<unknown>;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** Speaks over two pipes; each message is JSON with a zero byte at its end. */
function connect(input: Writable, output: Readable): Devtools {
  /** Answers by the number of the question, events by session and name. */
  const awaited = new Map<string, PromiseWithResolvers<unknown>>();
  const awaitOne = (key: string) => {
    const one = Promise.withResolvers<unknown>();
    awaited.set(key, one);
    return one.promise;
  };
  const take = ({ id, method, sessionId, result, error }: Message) => {
    const one = awaited.get(method === undefined ? `${id}` : `${sessionId} ${method}`);
    if (error === undefined) one?.resolve(result);
    else one?.reject(new Error(error.message));
  };
  let rest = '';
  output.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\0');
    rest = parts.pop() ?? '';
    for (const part of parts) take(JSON.parse(part) as Message);
  });
  output.on('close', () => {
    for (const { reject } of awaited.values()) reject(new Error('Chromium has ended'));
  });
  input.on('error', () => {}); // Chromium has ended, which the other pipe tells
  let asked = 0;
  return {
    ask: <Result>(method: string, params: object = {}, sessionId?: string) => {
      asked += 1;
      const answer = awaitOne(`${asked}`);
      input.write(`${JSON.stringify({ id: asked, method, params, sessionId })}\0`);
      return answer as Promise<Result>;
    },
    event: (method, sessionId) => awaitOne(`${sessionId} ${method}`),
  };
}
