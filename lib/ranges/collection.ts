import { setTimeout as delay } from 'node:timers/promises';
import { errorMessage } from '../text/error.ts';
import { type Api, ApiError } from './api.ts';
import type { KubeObject } from './claims.ts';

/** Objects of an answer: a Node of kubelet has 15 KB, most of it names of images. */
const PAGE = '250';
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

interface List {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly KubeObject[];
}

/** What to read, and what to keep of it. */
export interface Listing<Kept> {
  readonly path: string;
  /** Reads only the object of this name. */
  readonly name?: string;
  /** @throws {SystemError} if the object cannot be understood */
  readonly keep: (object: KubeObject) => Kept;
}

/** The objects of one kind: a listing, then a watch of its changes, and all anew if the watch fails. */
export class Collection<Kept> {
  readonly #api: Pick<Api, 'request' | 'watch'>;
  readonly #listing: Listing<Kept>;
  readonly #query: Readonly<Record<string, string>>;
  #objects = new Map<string, Kept>();
  /** The version up to which they are known; undefined if a listing is needed. */
  #version: string | undefined;
  /** Why they are not known now: what is not complete, or not followed, must not decide. */
  failure: string | undefined;

  constructor(api: Pick<Api, 'request' | 'watch'>, listing: Listing<Kept>) {
    this.#api = api;
    this.#listing = listing;
    this.#query = listing.name === undefined ? {} : { fieldSelector: `metadata.name=${listing.name}` };
  }

  get objects(): readonly Kept[] {
    return [...this.#objects.values()];
  }

  /** Lists all, in pages; nothing is replaced before the last one. Tells a failure. */
  async list(): Promise<void> {
    const { path, keep } = this.#listing;
    const found = new Map<string, Kept>();
    let metadata: Partial<List['metadata']> = {};
    try {
      do {
        const page = { ...this.#query, limit: PAGE, continue: metadata.continue ?? '' };
        const list = (await this.#api.request('GET', path, page)) as List;
        for (const item of list.items) found.set(keyOf(item), keep(item));
        metadata = list.metadata;
      } while (metadata.continue);
      this.failure = undefined;
    } catch (error) {
      // Without its CRD, a kind has no objects. Any other 404 is of a proxy, or of a CRD that is deleted just now.
      const mayBeUnknown = path.startsWith('/apis/') && !metadata.continue;
      const isUnknown = mayBeUnknown && error instanceof ApiError && error.status === 404;
      this.failure = isUnknown ? undefined : errorMessage(error);
      if (!isUnknown) return;
    }
    this.#objects = found;
    this.#version = metadata.resourceVersion;
  }

  /** Follows the objects until the process ends. */
  async follow(): Promise<never> {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(LONGEST_PAUSE_MS, 2 * pause)) {
      if (this.#version === undefined) await this.list();
      if (this.#version !== undefined) {
        const begun = performance.now();
        await this.#watch(this.#version);
        // A watch that fails at once, each time, must not cost a listing of all Nodes each second.
        if (this.#version !== undefined || performance.now() - begun > LONGEST_PAUSE_MS)
          pause = FIRST_PAUSE_MS;
      }
      // Not all programs at once.
      await delay(pause * (0.5 + Math.random()));
    }
  }

  async #watch(resourceVersion: string): Promise<void> {
    const query = { ...this.#query, resourceVersion };
    try {
      await this.#api.watch(this.#listing.path, query, (...event) => this.#take(...event));
    } catch (error) {
      this.#version = undefined;
      this.failure = errorMessage(error);
    }
  }

  #take(type: string, item: KubeObject): void {
    // The API server no longer knows the version, or has another complaint, and ends the watch.
    this.#version = type === 'ERROR' ? undefined : item.metadata.resourceVersion;
    if (type === 'DELETED') this.#objects.delete(keyOf(item));
    if (type === 'ADDED' || type === 'MODIFIED') this.#objects.set(keyOf(item), this.#listing.keep(item));
  }
}

function keyOf({ metadata: { namespace, name } }: KubeObject): string {
  return `${namespace}/${name}`;
}
