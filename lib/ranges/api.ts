import { IsomorphicFetchHttpLibrary, KubeConfig, RequestContext, Watch } from '@kubernetes/client-node';
import { errorMessage, SystemError } from '../text/error.ts';
import type { KubeObject } from './claims.ts';

/** How long the API server has for an answer. */
const ANSWER_MS = 30_000;
/** How long a watch may bring nothing. The API server sends a bookmark each minute. */
const SILENCE_MS = 90_000;
/** After how many seconds the API server ends a watch; the next one goes on where it ended. */
const WATCH_SECONDS = '540';

/** The API server refused a request, or did not answer: then the status is 0. */
export class ApiError extends SystemError {
  /** The HTTP status. */
  readonly status: number;

  constructor(what: string, status: number, said: string) {
    const remedy = status === 403 ? 'give its service account this right (docs/ranges.md)' : 'it tries again';
    super(`${what}: ${status || 'no answer'}: ${said}; ${remedy}`);
    this.status = status;
  }
}

type Query = Readonly<Record<string, string>>;
type Method = keyof typeof CONTENT_TYPES;

/** How a body is written: a new object, or server-side apply. */
const CONTENT_TYPES = { GET: '', POST: 'application/json', PATCH: 'application/apply-patch+yaml' } as const;

/** The requests that are needed, with what the official client knows of credentials, proxies and watches. */
export class Api {
  readonly #config = new KubeConfig();

  /** @throws {SystemError} if the kubeconfig cannot be read */
  constructor() {
    try {
      this.#config.loadFromDefault();
    } catch (error) {
      throw new SystemError(`cannot read the kubeconfig: ${errorMessage(error)}; correct it, or KUBECONFIG`);
    }
  }

  /** @throws {ApiError} */
  async request(method: Method, path: string, query: Query, body?: object): Promise<unknown> {
    const context = new RequestContext(`${this.#config.getCurrentCluster()?.server}${path}`, method);
    for (const [name, value] of Object.entries(query)) context.setQueryParam(name, value);
    context.setSignal(AbortSignal.timeout(ANSWER_MS));
    if (body !== undefined) {
      context.setHeaderParam('Content-Type', CONTENT_TYPES[method]);
      context.setBody(JSON.stringify(body));
    }
    try {
      await this.#config.applySecurityAuthentication(context);
      const answer = await new IsomorphicFetchHttpLibrary().send(context).toPromise();
      const text = await answer.body.text();
      if (answer.httpStatusCode < 300) return JSON.parse(text);
      throw new ApiError(`${method} ${path}`, answer.httpStatusCode, messageOf(text));
    } catch (error) {
      throw error instanceof ApiError ? error : unanswered(`${method} ${path}`, error);
    }
  }

  /**
   * Calls back for each event until the API server ends the watch.
   *
   * @throws {Error} if it does not begin, or ends otherwise, or if the callback throws
   */
  async watch(path: string, query: Query, onEvent: (type: string, object: KubeObject) => void) {
    const watch = new Watch(this.#config);
    // Its own 30 s would end a watch of objects that do not change.
    Reflect.set(watch, 'requestTimeoutMs', SILENCE_MS);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // The client drops what a callback throws.
    const take = (type: string, object: KubeObject) => {
      try {
        onEvent(type, object);
      } catch (error) {
        reject(error);
      }
    };
    const end = (error: unknown) => (error ? reject(unanswered(`watch ${path}`, error)) : resolve());
    const all = { ...query, allowWatchBookmarks: true, timeoutSeconds: WATCH_SECONDS };
    const controller = await watch.watch(path, all, take, end);
    await promise.finally(() => controller.abort());
  }
}

/** What a Status of Kubernetes says; the beginning of any other text, such as of a proxy. */
function messageOf(text: string): string {
  return /"message":("(?:[^"\\]|\\.)*")/.exec(text)?.[1] ?? text.slice(0, 200).trim();
}

function unanswered(what: string, error: unknown): ApiError {
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 0;
  const cause = error instanceof Error && error.cause !== undefined ? `: ${errorMessage(error.cause)}` : '';
  return new ApiError(what, status, `${errorMessage(error)}${cause}`);
}
