import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import type { Box } from './box.ts';
import { temporaryDirectory } from './volume.ts';

/** How a reader looks at a page. */
export interface View {
  readonly width: number;
  readonly height: number;
  /** What `prefers-color-scheme` says. */
  readonly scheme: 'light' | 'dark';
}

/** A page that has been loaded. */
export interface Page {
  /** The value of a JavaScript expression in the page, which must be one that JSON can hold. */
  evaluate<Value>(expression: string): Promise<Value>;
  /** The whole page, however long, as PNG. */
  screenshot(): Promise<Buffer>;
}

/** A headless Chromium in a box. */
export interface Browser extends AsyncDisposable {
  open(url: string, view: View): Promise<Page>;
}

const FLAGS = [
  ...['--headless', '--remote-debugging-pipe', '--no-first-run', '--disable-gpu', '--hide-scrollbars'],
  // In a container there is often neither a sandbox to be had nor a large /dev/shm.
  ...['--no-sandbox', '--disable-dev-shm-usage'],
  // The box leads nowhere: nothing shall wait for an answer from outside.
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'],
];

/** Starts it, with a profile of its own. */
export async function startChromium(box: Box): Promise<Browser> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const child = box.spawn('chromium', [...FLAGS, `--user-data-dir=${path}/profile`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    env: { HOME: path },
  });
  await once(child, 'spawn');
  const devtools = connect(child);
  stack.defer(() => close(child, devtools));
  await devtools.ask('Browser.getVersion');
  const owned = stack.move();
  return {
    open: (url, view) => openPage(devtools, url, view),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function openPage(devtools: Devtools, url: string, { width, height, scheme }: View): Promise<Page> {
  const { targetId } = await devtools.ask<{ targetId: string }>('Target.createTarget', {
    url: 'about:blank',
  });
  const attachment = { targetId, flatten: true };
  const { sessionId } = await devtools.ask<{ sessionId: string }>('Target.attachToTarget', attachment);
  const ask = <Result>(method: string, params?: object) => devtools.ask<Result>(method, params, sessionId);
  const size = { width, height, deviceScaleFactor: 1, mobile: width < 600 };
  await ask('Emulation.setDeviceMetricsOverride', size);
  await ask('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  await ask('Page.enable');
  const loaded = devtools.event('Page.loadEventFired', sessionId);
  const { errorText } = await ask<{ errorText?: string }>('Page.navigate', { url });
  if (errorText !== undefined) throw new Error(`${url} cannot be opened: ${errorText}`);
  await loaded;
  return {
    async evaluate<Value>(expression: string) {
      const { result, exceptionDetails } = await ask<Evaluation<Value>>('Runtime.evaluate', {
        expression,
        returnByValue: true,
      });
      if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
      return result.value;
    },
    async screenshot() {
      const options = { format: 'png', captureBeyondViewport: true };
      const { data } = await ask<{ data: string }>('Page.captureScreenshot', options);
      return Buffer.from(data, 'base64');
    },
  };
}

interface Evaluation<Value> {
  readonly result: { readonly value: Value };
  readonly exceptionDetails?: unknown;
}

/** The Chrome DevTools Protocol. */
interface Devtools {
  /** Rejects where the browser refuses, or is gone. */
  ask<Result>(method: string, params?: object, sessionId?: string): Promise<Result>;
  /** The next event of the name. */
  event(method: string, sessionId: string): Promise<void>;
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly sessionId?: string;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** Messages are JSON, each ended by a zero byte: to file descriptor 3 of the browser, and from 4. */
function connect(child: ChildProcess): Devtools {
  const [, , , input, output] = child.stdio as unknown as [null, null, Readable, Writable, Readable];
  const questions = new Map<number, PromiseWithResolvers<unknown>>();
  const events = new Map<string, PromiseWithResolvers<void>>();
  let [asked, stderr, rest] = [0, '', ''];
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    stderr += chunk;
  });
  input.on('error', () => {}); // it has ended, which is told below
  output.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\0');
    rest = parts.pop() ?? '';
    for (const part of parts) take(JSON.parse(part) as Message);
  });
  const take = ({ id = -1, method, sessionId, result, error }: Message) => {
    if (method !== undefined) return events.get(`${sessionId} ${method}`)?.resolve();
    if (error === undefined) questions.get(id)?.resolve(result);
    else questions.get(id)?.reject(new Error(error.message));
    questions.delete(id);
  };
  child.on('close', () => {
    const error = new Error(`Chromium has ended: ${stderr}`);
    for (const { reject } of [...questions.values(), ...events.values()]) reject(error);
  });
  return {
    ask: <Result>(method: string, params: object = {}, sessionId?: string) => {
      asked += 1;
      const answer = Promise.withResolvers<unknown>();
      questions.set(asked, answer);
      input.write(`${JSON.stringify({ id: asked, method, params, sessionId })}\0`);
      return answer.promise as Promise<Result>;
    },
    event: (method, sessionId) => {
      const event = Promise.withResolvers<void>();
      event.promise.catch(() => {}); // whoever waits for it is told
      events.set(`${sessionId} ${method}`, event);
      return event.promise;
    },
  };
}

/** In order: it is a family of processes, which write to the profile for as long as one of them lives. */
async function close(child: ChildProcess, devtools: Devtools): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  devtools.ask('Browser.close').catch(() => {}); // it may end before it answers
  await ended;
}
