import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { Api, ApiError } from '../../../lib/ranges/api.ts';
import { type KubeObject, nodeClaims } from '../../../lib/ranges/claims.ts';
import { Collection } from '../../../lib/ranges/collection.ts';
import type { Objects } from '../../../lib/ranges/plan.ts';
import { Publisher } from '../../../lib/ranges/publisher.ts';
import { SystemError } from '../../../lib/text/error.ts';
import { claims, OPTIONS } from './support.ts';

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly query: object;
  readonly body: KubeObject & { readonly reason?: string; readonly message?: string };
}

/** A publisher whose API server answers as the function says, with what it has written, told and logged. */
function lab(answer: (method: string) => unknown = () => ({})) {
  const sent: Sent[] = [];
  const events: Sent[] = [];
  const lines: string[] = [];
  const tell = (line: string) => void lines.push(line);
  const request = async (method: string, path: string, query: object, body?: object) => {
    (method === 'POST' ? events : sent).push({ method, path, query, body } as Sent);
    return answer(method);
  };
  const notices = new Notices({ info: tell, warn: tell } as unknown as Logger);
  return { publisher: new Publisher({ request }, 'kube-system', notices), sent, events, lines };
}

const OTHER = { metadata: { name: 'x' }, data: { 'ip-masq-x': 'nonMasqueradeCIDRs: [192.168.0.0/16]\n' } };

/** The ConfigMap of the list, with this annotation. */
function ownOf(lastUse: string): KubeObject {
  const managedFields = [{ manager: 'ip-masq-ranges' }];
  return {
    metadata: { name: 'ip-masq-ranges', annotations: { 'ip-masq-ranges/last-used': lastUse }, managedFields },
  };
}

const OWN = ownOf('{"now":["10.244.0.0/22"]}');

function objects(node: string, more: Partial<Objects> = {}): Objects {
  return { claims: claims('node', node), own: undefined, others: [OTHER], failures: [], ...more };
}

it('names a kubeconfig that cannot be read, which is no bug', () => {
  process.env['KUBECONFIG'] = '/nonexistent';
  const isExpected = (error: unknown) =>
    error instanceof SystemError && /kubeconfig: .*'\/nonexistent'; correct it/.test(error.message);
  assert.throws(() => new Api(), isExpected);
});

describe('a publisher', () => {
  it('applies the ConfigMap under its own field manager, spends an acceptance, and writes nothing twice', async () => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    const [{ method, path, query, body } = assert.fail()] = sent;
    assert.deepEqual([method, path], ['PATCH', '/api/v1/namespaces/kube-system/configmaps/ip-masq-ranges']);
    assert.deepEqual(query, { fieldManager: 'ip-masq-ranges', force: 'true' });
    assert.equal(body.metadata.annotations?.['ip-masq-ranges/accept'], '');
    await publisher.round(objects('10.244.0.0/24', { own: body }), OPTIONS);
    assert.equal(sent.length, 1);
    assert.equal(publisher.state.refusal, undefined);
    assert.equal(publisher.state.writes, 1);
  });

  it('remembers what was listed, if it could not write or read, and the ConfigMap is deleted then', async () => {
    let isAway = true;
    const { publisher, sent } = lab(() => {
      if (isAway) throw new ApiError('PATCH /x', 500, 'full');
    });
    await publisher.round(objects('10.244.0.0/24', { own: OWN }), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'unwritable');
    assert.equal(publisher.state.writes, 0);
    await publisher.round(objects('', { failures: ['away'] }), OPTIONS);
    isAway = false;
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    assert.match(sent.at(-1)?.body.data?.['ip-masq-ranges'] ?? '', /^ {2}- 10\.244\.0\.0\/22 # /m);
  });

  it('refuses the first list in each round, not only in the first one', async () => {
    const { publisher, sent } = lab();
    for (const node of ['', '10.244.0.0/24', '10.244.0.0/24'])
      await publisher.round(objects(node, { others: [] }), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'first-list');
    assert.deepEqual(sent, []);
  });

  it('writes again what was deleted, without another config file too: it is not the first list', async () => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    await publisher.round(objects('10.244.1.0/24', { others: [] }), OPTIONS);
    assert.equal(publisher.state.refusal, undefined);
    assert.match(sent[1]?.body.data?.['ip-masq-ranges'] ?? '', /^ {2}- 10\.244\.0\.0\/23 # /m);
  });

  it('does not take a ConfigMap that another owner has made in place of its own', async () => {
    const { publisher } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    const managedFields = [{ manager: 'a-person' }];
    const own = { metadata: { name: 'ip-masq-ranges', managedFields }, data: { a: 'b' } };
    await publisher.round(objects('10.244.0.0/24', { own }), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'not-ours');
    assert.equal(publisher.state.writes, 1);
  });

  it('remembers what must not leave at once, also if the ConfigMap is deleted, until a person accepts it', async () => {
    const { publisher, sent } = lab();
    const own = ownOf('{"2020-01-01T00:00:00Z":["10.244.0.0/22"]}');
    for (const more of [{ own }, { own }, {}, {}])
      await publisher.round(objects('10.244.0.0/24', more), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'removes-too-much');
    assert.deepEqual(sent, []);
    const [, accept] = /(ip-masq-ranges\/accept)=(\w+)/.exec(publisher.state.refusal.message)?.slice(1) ?? [];
    const annotations = { ...own.metadata.annotations, 'ip-masq-ranges/accept': accept ?? '' };
    const accepted = { metadata: { ...own.metadata, annotations } };
    await publisher.round(objects('10.244.0.0/24', { own: accepted }), OPTIONS);
    assert.equal(publisher.state.writes, 1);
  });

  it('keeps the grace if the clock is set forward', async (t) => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24', { own: OWN }), OPTIONS);
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 86_400_000 });
    const own = sent.at(-1)?.body;
    await publisher.round(objects('10.244.0.0/24', { own }), { ...OPTIONS, mostRemoved: 100 });
    assert.equal(publisher.state.writes, 1, 'the list is the same');
  });

  it('puts back an edit, with an Event that names who made it', async () => {
    const { publisher, events } = lab();
    const managedFields = [{ manager: 'kubectl-edit', fieldsV1: { 'f:data': { 'f:ip-masq-ranges': {} } } }];
    const own = { metadata: { ...OWN.metadata, managedFields }, data: { 'ip-masq-ranges': 'x: y\n' } };
    await publisher.round(objects('10.244.0.0/24', { own }), OPTIONS);
    assert.equal(publisher.state.writes, 1);
    const [{ path, body } = assert.fail()] = events;
    assert.deepEqual([path, body.reason], ['/api/v1/namespaces/kube-system/events', 'EditPutBack']);
    assert.match(body.message ?? '', /^put back an edit of kubectl-edit: /);
  });

  it('tells once of each range that is left out, with an Event on its Node, and of at most ten at once', async () => {
    const { publisher, events, lines } = lab();
    const evil = Array.from({ length: 50 }, (_, index) => `8.8.${index}.0/24`).join(' ');
    for (const node of ['10.244.0.0/24 8.8.0.0/24', '10.244.0.0/24 8.8.0.0/24', `10.244.0.0/24 ${evil}`])
      await publisher.round(objects(node), OPTIONS);
    const told = lines.filter((line) => !line.startsWith('wrote'));
    assert.equal(told.filter((line) => line.startsWith('Node n1 has the range "8.8.0.0/24"')).length, 1);
    assert.equal(told.length, 12);
    assert.equal(told.at(-1), '… and 39 more');
    assert.equal(events.length, 11);
    const [{ path, body } = assert.fail()] = events;
    assert.deepEqual([path, body.reason], ['/api/v1/namespaces/default/events', 'RangeRejected']);
    assert.equal(publisher.state.rejected, 50);
  });

  it('logs once that the API server is away, whatever it says, and that it is back', async () => {
    const { publisher, lines } = lab();
    await publisher.round(objects('10.244.0.0/24 8.8.8.0/24'), OPTIONS);
    for (const failure of ['a', 'b', 'c'])
      await publisher.round(objects('', { failures: [failure] }), OPTIONS);
    await publisher.round(objects('10.244.0.0/24 8.8.8.0/24'), OPTIONS);
    assert.equal(lines.filter((line) => line.includes('8.8.8.0/24')).length, 1);
    assert.equal(lines.filter((line) => line.includes('is not written')).length, 1);
    assert.equal(lines.filter((line) => line.includes('up to date again')).length, 1);
  });

  it('goes on without the right to create Events, tries one, and says so once', async () => {
    const { publisher, lines, events } = lab((method) => {
      if (method === 'POST') throw new ApiError('POST /events', 403, 'forbidden');
    });
    await publisher.round(objects('10.244.0.0/24 8.8.8.0/24 8.8.9.0/24'), OPTIONS);
    assert.equal(events.length, 1);
    assert.equal(
      lines.filter((line) => line.startsWith('cannot create an Event: POST /events: 403')).length,
      1,
    );
    assert.equal(publisher.state.refusal, undefined);
  });
});

describe('a collection', () => {
  const node = (name: string, resourceVersion = '1', range = name) => ({
    metadata: { name, resourceVersion },
    spec: { podCIDRs: [`10.0.${range}.0/24`] },
  });
  const page = (items: readonly object[], more = '') => ({
    metadata: { resourceVersion: '5', continue: more },
    items,
  });
  const UNKNOWN = new ApiError('GET', 404, 'what?');

  /** A collection of Nodes whose API server answers listings and watches so, one after the other. */
  function nodes(
    lists: readonly (object | Error)[],
    watches: readonly (readonly (readonly [string, object])[] | Error)[] = [],
    path = '/api/v1/nodes',
  ) {
    const queries: object[] = [];
    const [restOfLists, restOfWatches] = [[...lists], [...watches]];
    const request = async (_: string, __: string, query: object) => {
      queries.push(query);
      const next = restOfLists.shift() ?? new Error('no more');
      if (next instanceof Error) throw next;
      return next;
    };
    const watch = async (_: string, query: object, onEvent: (type: string, object: KubeObject) => void) => {
      queries.push(query);
      const next = restOfWatches.shift() ?? (await delay(1e6, [], { ref: false }));
      if (next instanceof Error) throw next;
      for (const [type, object] of next) onEvent(type, object as KubeObject);
    };
    const collection = new Collection({ request, watch }, { path, keep: nodeClaims });
    const texts = () => collection.objects.flatMap((all) => all.map(({ text }) => text)).join(' ');
    const untilTexts = async (wanted: string) => {
      for (let left = 100; texts() !== wanted && left > 0; left -= 1) await delay(100);
      assert.equal(texts(), wanted);
    };
    return { collection, texts, untilTexts, queries };
  }

  it('is listed in pages', async () => {
    const { collection, texts, queries } = nodes([page([node('1')], 'x'), page([node('2')])]);
    await collection.list();
    assert.equal(texts(), '10.0.1.0/24 10.0.2.0/24');
    assert.deepEqual(queries, [
      { limit: '250', continue: '' },
      { limit: '250', continue: 'x' },
    ]);
  });

  it('stays as it was if a page is missing, and says why until it is listed', async () => {
    const full = new ApiError('GET', 500, 'full');
    const { collection, texts } = nodes([page([node('1')]), page([node('2')], 'x'), full, page([])]);
    await collection.list();
    await collection.list();
    assert.deepEqual([texts(), collection.failure], ['10.0.1.0/24', 'GET: 500: full; it tries again']);
    await collection.list();
    assert.deepEqual([texts(), collection.failure], ['', undefined]);
  });

  for (const [name, path, lists, failure] of [
    ['is empty if the API server does not know the kind', '/apis/x/v1/pools', [], undefined],
    ['is not empty if the API server does not know Nodes', '/api/v1/nodes', [], UNKNOWN.message],
    ['is not complete if a page is not found', '/apis/x/v1/pools', [page([], 'x')], UNKNOWN.message],
  ] as const)
    it(name, async () => {
      const { collection, texts } = nodes([...lists, UNKNOWN], [], path);
      await collection.list();
      assert.deepEqual([texts(), collection.failure], ['', failure]);
    });

  it('is listed ever less often if each watch fails at once', async (t) => {
    t.mock.method(Math, 'random', () => 0);
    const fails = [['ERROR', { code: 403 }]] as const;
    const { collection, queries } = nodes(Array(4).fill(page([node('1')])), [fails, fails, fails]);
    void collection.follow();
    await delay(2_500);
    const listed = queries.filter((query) => 'limit' in query).length;
    assert.equal(listed, 3, 'at once, after 0.5 s and after 1.5 s');
  });

  it('follows a watch, goes on where it ended, and is listed anew if the version is too old', async () => {
    const events = [
      ['ADDED', node('2', '6')],
      ['MODIFIED', node('2', '7', '3')],
      ['DELETED', node('1', '8')],
      ['BOOKMARK', node('', '9')],
    ] as const;
    const expired = [['ERROR', { code: 410 }]] as const;
    const { collection, untilTexts, queries } = nodes(
      [page([node('1')]), page([node('9')])],
      [events, expired],
    );
    void collection.follow();
    await untilTexts('10.0.3.0/24');
    await untilTexts('10.0.9.0/24');
    assert.deepEqual(queries.slice(1, 4), [
      { resourceVersion: '5' },
      { resourceVersion: '9' },
      { limit: '250', continue: '' },
    ]);
  });

  it('is not known from the end of a watch that fails until it is listed anew', async () => {
    const { collection, untilTexts } = nodes([page([node('1')]), page([node('2')])], [new Error('cut')]);
    void collection.follow();
    await delay(100);
    assert.equal(collection.failure, 'cut');
    await untilTexts('10.0.2.0/24');
    assert.equal(collection.failure, undefined);
  });
});
