import type { Notices } from '../log/notices.ts';
import { errorMessage } from '../text/error.ts';
import { truncated } from '../text/words.ts';
import type { Api } from './api.ts';
import type { Options, Refusal } from './decide.ts';
import type { LastUse } from './last-use.ts';
import { configMapOf, isWritten, lastUseOf, NAME, type Objects, planFor } from './plan.ts';

/** What is known between two rounds. */
export interface PublisherState {
  /** Why nothing is written; undefined if the ConfigMap is as it must be. */
  readonly refusal: Refusal | undefined;
  /** The last use of ranges as the program last wrote it, or else read it: the ConfigMap may be deleted. */
  readonly use: readonly LastUse[];
  readonly rejected: number;
  readonly writes: number;
}

/** The most lines of one round about ranges that are left out: a Node may change what it says as often as it likes. */
const MOST_LINES = 10;
const UNREAD: Refusal = { reason: 'unreadable', message: 'the cluster is not read yet' };

/** Keeps the ConfigMap as the objects say. */
export class Publisher {
  readonly #api: Pick<Api, 'request'>;
  readonly #namespace: string;
  readonly #notices: Notices;
  state: PublisherState = { refusal: UNREAD, use: [], rejected: 0, writes: 0 };

  constructor(api: Pick<Api, 'request'>, namespace: string, notices: Notices) {
    this.#api = api;
    this.#namespace = namespace;
    this.#notices = notices;
  }

  /** Decides, and writes what differs. Nothing that the API server says ends it. */
  async round(objects: Objects, options: Options): Promise<void> {
    const memory = this.state.use.length > 0 ? this.state.use : (lastUseOf(objects.own) ?? []);
    // Unlike Date.now(), it does not jump if somebody sets the clock, which would end a grace.
    const plan = planFor(objects, memory, performance.timeOrigin + performance.now(), options);
    const configMap = configMapOf(plan, options);
    const isDue = plan.refusal === undefined && !isWritten(configMap, objects.own);
    const refusal = isDue ? await this.#write(configMap) : plan.refusal;
    const use = refusal === undefined ? plan.use : memory;
    const writes = this.state.writes + Number(isDue && refusal === undefined);
    this.state = { refusal, use, rejected: plan.rejected.length, writes };
    this.#tell(plan.rejected, refusal);
  }

  /** Returns why it is not written, if that fails. */
  async #write(body: object): Promise<Refusal | undefined> {
    const path = `/api/v1/namespaces/${this.#namespace}/configmaps/${NAME}`;
    try {
      await this.#api.request('PATCH', path, { fieldManager: NAME, force: 'true' }, body);
      this.#notices.log.info(`wrote the ConfigMap ${this.#namespace}/${NAME}`);
      return undefined;
    } catch (error) {
      return { reason: 'unwritable', message: errorMessage(error) };
    }
  }

  /** Logs what has become true since the last round. */
  #tell(rejected: readonly string[], refusal: Refusal | undefined): void {
    const news: string[] = [];
    const left = new Map(rejected.map((text) => [text, () => news.push(text)]));
    // If the objects cannot be read, nothing is known of them.
    if (refusal?.reason !== 'unreadable') this.#notices.update('rejected', left);
    for (const line of truncated(news, MOST_LINES, String)) this.#notices.log.warn(line);
    const message = `the list is not written: ${refusal?.message}`;
    // What fails may say something else each time.
    const key = refusal?.reason.startsWith('un') ? refusal.reason : message;
    const stopped = new Map(refusal && [[key, () => this.#notices.log.warn(message)]]);
    this.#notices.update('stopped', stopped, 'the list is up to date again');
  }
}
