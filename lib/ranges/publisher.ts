import type { Notices } from '../log/notices.ts';
import { errorMessage } from '../text/error.ts';
import { truncated } from '../text/words.ts';
import type { Api } from './api.ts';
import { type Options, type Refusal, type Rejected, rejectedText } from './decide.ts';
import type { LastUse } from './last-use.ts';
import { configMapOf, editorsOf, isWritten, lastUseOf, NAME, type Objects, planFor } from './plan.ts';

/** What is known between two rounds. */
export interface PublisherState {
  /** Why nothing is written; undefined if the ConfigMap is as it must be. */
  readonly refusal: Refusal | undefined;
  /** The last use of ranges as the program last wrote it, or else read it: the ConfigMap may be deleted. */
  readonly use: readonly LastUse[];
  readonly rejected: number;
  readonly writes: number;
}

/** What an Event says, and of what: of a Node or, by default, of the ConfigMap. */
interface Told {
  readonly reason: 'RangeRejected' | 'ListNotWritten' | 'EditPutBack';
  readonly message: string;
  readonly node?: Rejected['claim']['node'];
}

/** The most Events of one round: a Node may change what it says as often as it likes. */
const MOST_EVENTS = 10;
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
    const configMap = configMapOf(plan, this.#namespace, options);
    const isDue = plan.refusal === undefined && !isWritten(configMap, objects.own);
    const refusal = isDue ? await this.#write(configMap) : plan.refusal;
    const hasWritten = isDue && refusal === undefined;
    const use = refusal === undefined ? plan.use : memory;
    const writes = this.state.writes + Number(hasWritten);
    this.state = { refusal, use, rejected: plan.rejected.length, writes };
    const editors = editorsOf(objects.own).join(', ');
    const message = `put back an edit of ${editors}: only ${NAME} writes this key; change its flags instead`;
    const edits: Told[] = hasWritten && editors !== '' ? [{ reason: 'EditPutBack', message }] : [];
    await this.#tell([...edits, ...this.#found(plan.rejected, refusal)]);
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

  /** What has become true since the last round. */
  #found(rejected: readonly Rejected[], refusal: Refusal | undefined): readonly Told[] {
    const news: Told[] = [];
    const left = rejected.map((one) => {
      const message = rejectedText(one);
      return [message, () => news.push({ reason: 'RangeRejected', message, node: one.claim.node })] as const;
    });
    // Then nothing is known of them.
    if (refusal?.reason !== 'unreadable') this.#notices.update('rejected', new Map(left));
    const message = `the list is not written: ${refusal?.message}`;
    // What fails may say something else each time.
    const key = refusal?.reason.startsWith('un') ? refusal.reason : message;
    const stopped = new Map(refusal && [[key, () => news.push({ reason: 'ListNotWritten', message })]]);
    this.#notices.update('stopped', stopped, 'the list is up to date again');
    return news;
  }

  /** Logs, and creates Events: the API server may be away, or refuse them. */
  async #tell(news: readonly Told[]): Promise<void> {
    for (const line of truncated(news, MOST_EVENTS, ({ message }) => message)) this.#notices.log.warn(line);
    for (const one of news.slice(0, MOST_EVENTS)) {
      const failure = await this.#createEvent(one).catch(errorMessage);
      const warn = () => this.#notices.log.warn(`cannot create an Event: ${failure}`);
      this.#notices.update('events', new Map(typeof failure === 'string' ? [['fails', warn]] : []));
      // The next one may hang as long.
      if (typeof failure === 'string') break;
    }
  }

  #createEvent({ node, reason, message }: Told): Promise<unknown> {
    // Events about what has no namespace are in `default`.
    const namespace = node === undefined ? this.#namespace : 'default';
    const object = node ? { kind: 'Node', ...node } : { kind: 'ConfigMap', name: NAME, namespace };
    const time = `${new Date().toISOString().slice(0, 19)}Z`;
    const event = {
      metadata: { generateName: `${NAME}.`, namespace },
      involvedObject: { apiVersion: 'v1', ...object },
      ...{ type: 'Warning', reason, message, count: 1 },
      ...{ source: { component: NAME }, firstTimestamp: time, lastTimestamp: time },
    };
    return this.#api.request('POST', `/api/v1/namespaces/${namespace}/events`, {}, event);
  }
}
