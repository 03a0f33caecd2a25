import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../../../lib/log/log.ts';
import { Notices } from '../../../lib/log/notices.ts';
import { Api, ApiError } from '../../../lib/ranges/api.ts';
import { nodeClaims } from '../../../lib/ranges/claims.ts';
import { Collection } from '../../../lib/ranges/collection.ts';
import type { Objects } from '../../../lib/ranges/plan.ts';
import { Publisher } from '../../../lib/ranges/publisher.ts';
import { SystemError } from '../../../lib/text/error.ts';
import { claims, OPTIONS } from './support.ts';

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly body: { readonly reason?: string; readonly metadata: object };
}

/** A publisher whose API server answers as the function says, with what it has sent and logged. */
function lab(answer: (method: string, path: string) => unknown = () => ({})) {
  const sent: Sent[] = [];
  const lines: string[] = [];
  const tell = (line: string) => void lines.push(line);
  const request = async (method: string, path: string, query: object, body?: object) => {
    sent.push({ method, path, query, body } as Sent);
    return answer(method, path);
  };
  const notices = new Notices({ info: tell, warn: tell } as unknown as Logger);
  return { publisher: new Publisher({ request }, 'kube-system', notices), sent, lines };
}

const OTHER = { metadata: { name: 'x' }, data: { 'ip-masq-x': 'nonMasqueradeCIDRs: [192.168.0.0/16]\n' } };

/** The ConfigMap of the list, with this annotation. */
function ownOf(lastUse: string): Objects['own'] {
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
  it('applies the ConfigMap under its own field manager', async () => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    const [{ method, path, query } = assert.fail(), ...others] = sent;
    assert.deepEqual([method, path], ['PATCH', '/api/v1/namespaces/kube-system/configmaps/ip-masq-ranges']);
    assert.deepEqual(query, { fieldManager: 'ip-masq-ranges', force: 'true' });
    assert.deepEqual(others, []);
    assert.equal(publisher.state.refusal, undefined);
    assert.equal(publisher.state.writes, 1);
  });

  it('writes nothing twice', async () => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    const own = sent[0]?.body as unknown as Objects['own'];
    await publisher.round(objects('10.244.0.0/24', { own }), OPTIONS);
    assert.equal(sent.length, 1);
  });

  it('remembers what was used, also if it cannot write, and forgets nothing of what could not be read', async () => {
    const { publisher } = lab(() => {
      throw new ApiError('PATCH /x', 500, 'full');
    });
    await publisher.round(objects('10.244.0.0/24', { own: OWN }), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'unwritable');
    await publisher.round(objects('', { failures: ['away'] }), OPTIONS);
    assert.equal(publisher.state.use[0]?.prefixes[0]?.text, '10.244.0.0/24');
  });

  it('refuses the first list in each round, not only in the first one', async () => {
    const { publisher, sent } = lab();
    for (const node of ['', '10.244.0.0/24', '10.244.0.0/24'])
      await publisher.round(objects(node, { others: [] }), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'first-list');
    assert.deepEqual(
      sent.filter(({ method }) => method === 'PATCH'),
      [],
    );
  });

  it('writes again what was deleted, without another config file too: it is not the first list', async () => {
    const { publisher } = lab();
    await publisher.round(objects('10.244.0.0/24', { own: OWN, others: [] }), OPTIONS);
    await publisher.round(objects('10.244.0.0/24', { others: [] }), OPTIONS);
    assert.equal(publisher.state.refusal, undefined);
    assert.equal(publisher.state.writes, 2);
  });

  it('does not take a ConfigMap that another owner has made in place of its own', async () => {
    const { publisher } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    const own = {
      metadata: { name: 'ip-masq-ranges', managedFields: [{ manager: 'a-person' }] },
      data: { a: 'b' },
    };
    await publisher.round(objects('10.244.0.0/24', { own }), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'not-ours');
    assert.equal(publisher.state.writes, 1);
  });

  it('remembers what must not leave at once, also if the ConfigMap is deleted', async () => {
    const { publisher, sent } = lab();
    const own = ownOf('{"2020-01-01T00:00:00Z":["10.244.0.0/22"]}');
    for (const more of [{ own }, { own }, {}, {}])
      await publisher.round(objects('10.244.0.0/24', more), OPTIONS);
    assert.equal(publisher.state.refusal?.reason, 'removes-too-much');
    assert.deepEqual(
      sent.filter(({ method }) => method === 'PATCH'),
      [],
    );
    const texts = publisher.state.use.flatMap(({ prefixes }) => prefixes.map(({ text }) => text));
    assert.deepEqual(texts, ['10.244.0.0/24', '10.244.1.0/24', '10.244.2.0/23']);
  });

  it('spends the acceptance of a person when it writes', async () => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24', { own: OWN }), OPTIONS);
    assert.deepEqual(Object.entries(sent[0]?.body.metadata ?? {}).at(-1)?.[1]['ip-masq-ranges/accept'], '');
  });

  it('keeps the grace if the clock is set forward', async (t) => {
    const { publisher, sent } = lab();
    await publisher.round(objects('10.244.0.0/24', { own: OWN }), OPTIONS);
    await publisher.round(objects('10.244.0.0/24', { own: OWN }), OPTIONS);
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 86_400_000 });
    const own = sent.at(-1)?.body as unknown as Objects['own'];
    await publisher.round(objects('10.244.0.0/24', { own }), { ...OPTIONS, mostRemoved: 100 });
    assert.equal(publisher.state.writes, 2);
    assert.deepEqual(publisher.state.use.length, 3);
  });

  it('tells once of each range that is left out, with an Event on its Node', async () => {
    const { publisher, sent, lines } = lab();
    await publisher.round(objects('10.244.0.0/24 8.8.8.0/24'), OPTIONS);
    await publisher.round(objects('10.244.0.0/24 8.8.8.0/24'), OPTIONS);
    const events = sent.filter(({ method }) => method === 'POST');
    assert.deepEqual(
      events.map(({ path }) => path),
      ['/api/v1/namespaces/default/events'],
    );
    assert.equal(events[0]?.body.reason, 'RangeRejected');
    assert.equal(lines.filter((line) => line.includes('8.8.8.0/24')).length, 1);
  });

  it('tells of at most ten at once', async () => {
    const { publisher, sent, lines } = lab();
    const evil = Array.from({ length: 50 }, (_, index) => `8.8.${index}.0/24`).join(' ');
    await publisher.round(objects(`10.244.0.0/24 ${evil}`), OPTIONS);
    assert.equal(sent.filter(({ method }) => method === 'POST').length, 10);
    assert.equal(lines.at(-1), '… and 40 more');
    assert.equal(publisher.state.rejected, 50);
  });

  it('logs once that the API server is away, whatever it says, and that it is back', async () => {
    const { publisher, lines } = lab();
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    for (const failure of ['a', 'b', 'c'])
      await publisher.round(objects('', { failures: [failure] }), OPTIONS);
    await publisher.round(objects('10.244.0.0/24'), OPTIONS);
    assert.equal(lines.filter((line) => line.includes('is not written')).length, 1);
    assert.equal(lines.filter((line) => line.includes('up to date again')).length, 1);
  });

  it('goes on without the right to create Events, tries one, and says so once', async () => {
    const { publisher, lines, sent } = lab((method) => {
      if (method === 'POST') throw new ApiError('POST /events', 403, 'forbidden');
    });
    await publisher.round(objects('10.244.0.0/24 8.8.8.0/24 8.8.9.0/24'), OPTIONS);
    assert.equal(sent.filter(({ method }) => method === 'POST').length, 1);
    assert.equal(
      lines.filter((line) => line.startsWith('cannot create an Event: POST /events: 403')).length,
      1,
    );
    assert.equal(publisher.state.refusal, undefined);
  });
});

describe('a collection', () => {
  const node = (name: string, resourceVersion = '1') => ({
    metadata: { name, resourceVersion },
    spec: { podCIDRs: [`10.0.${name}.0/24`] },
  });

  /** A collection of Nodes whose API server answers listings and watches so, one after the other. */
  function nodes(lists: readonly (object | Error)[], ...watches: (readonly (readonly [string, object])[])[]) {
    return nodesAt('/api/v1/nodes', lists, ...watches);
  }

  function nodesAt(
    path: string,
    lists: readonly (object | Error)[],
    ...watches: (readonly (readonly [string, object])[])[]
  ) {
    const queries: object[] = [];
    const rest = [...lists];
    const request = async (_: string, __: string, query: object) => {
      queries.push(query);
      const next = rest.shift() ?? new Error('no more');
      if (next instanceof Error) throw next;
      return next;
    };
    const watch = async (_: string, query: object, onEvent: (type: string, object: unknown) => void) => {
      queries.push(query);
      const events = watches.shift();
      if (events === undefined) await delay(1e6, undefined, { ref: false });
      for (const [type, object] of events ?? []) onEvent(type, object);
    };
    const collection = new Collection({ request, watch }, { path, keep: nodeClaims });
    const texts = () =>
      collection.objects
        .flat()
        .map(({ text }) => text)
        .join(' ');
    return { collection, texts, queries };
  }

  const page = (items: readonly object[], more = '') => ({
    metadata: { resourceVersion: '5', continue: more },
    items,
  });

  it('is listed in pages', async () => {
    const { collection, texts, queries } = nodes([page([node('1')], 'x'), page([node('2')])]);
    await collection.list();
    assert.equal(texts(), '10.0.1.0/24 10.0.2.0/24');
    assert.deepEqual(queries, [
      { limit: '250', continue: '' },
      { limit: '250', continue: 'x' },
    ]);
  });

  it('stays as it was if a page is missing, and says why', async () => {
    const { collection, texts } = nodes([
      page([node('1')]),
      page([node('2')], 'x'),
      new ApiError('GET', 500, 'full'),
    ]);
    await collection.list();
    await collection.list();
    assert.equal(texts(), '10.0.1.0/24');
    assert.equal(collection.failure, 'GET: 500: full; it tries again');
  });

  for (const [name, path, lists, failure] of [
    ['is empty if the API server does not know the kind', '/apis/x/v1/pools', [], undefined],
    [
      'is not empty if the API server does not know Nodes',
      '/api/v1/nodes',
      [],
      'GET: 404: what?; it tries again',
    ],
    [
      'is not complete if a page is not found',
      '/apis/x/v1/pools',
      [page([node('2')], 'x')],
      'GET: 404: what?; it tries again',
    ],
  ] as const)
    it(name, async () => {
      const { collection, texts } = nodesAt(path, [...lists, new ApiError('GET', 404, 'what?')]);
      await collection.list();
      assert.deepEqual([texts(), collection.failure], ['', failure]);
    });

  it('is listed ever less often if each watch fails at once', async (t) => {
    t.mock.method(Math, 'random', () => 0);
    const fails = [['ERROR', { code: 403 }]] as const;
    const lists = [1, 2, 3, 4].map(() => page([node('1')]));
    const { collection, queries } = nodes(lists, fails, fails, fails);
    void collection.follow(() => {});
    await delay(2_500);
    const listed = queries.filter((query) => 'limit' in query).length;
    assert.equal(listed, 3, 'at once, after 0.5 s and after 1.5 s');
  });

  it('follows a watch, goes on where it ended, and is listed anew if the version is too old', async () => {
    const { collection, texts, queries } = nodes(
      [page([node('1')]), page([node('9')])],
      [
        ['ADDED', node('2', '6')],
        ['MODIFIED', node('2', '7')],
        ['DELETED', node('1', '8')],
        ['BOOKMARK', node('', '9')],
      ],
      [['ERROR', { code: 410 }]],
    );
    let changes = 0;
    void collection.follow(() => {
      changes += 1;
    });
    await delay(100);
    assert.equal(texts(), '10.0.2.0/24');
    for (let left = 100; texts() !== '10.0.9.0/24' && left > 0; left -= 1) await delay(100);
    assert.equal(texts(), '10.0.9.0/24');
    assert.deepEqual(queries.slice(1, 4), [
      { resourceVersion: '5' },
      { resourceVersion: '9' },
      { limit: '250', continue: '' },
    ]);
    assert.ok(changes >= 5);
  });
});
