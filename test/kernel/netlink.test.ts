import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { formatRange, type Range } from '../../lib/cidr/ranges.ts';
import { dataplaneError } from '../../lib/dataplane/nftables/failure.ts';
import { addElements, type ChainName, type SetName } from '../../lib/netlink/change.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import type { KnownExpression } from '../../lib/netlink/expressions.ts';
import type { TableChange } from '../../lib/netlink/watch.ts';
import { type BoxKind, createBox } from '../lab/box.ts';
import { type Netlink, openNetlink } from '../lab/netlink.ts';
import { succeed } from '../lab/run.ts';
import { rangeFrom } from '../unit/cidr/support.ts';
import { FAMILY_KINDS, type Family, IP } from './support.ts';

const LIB = new URL('../../lib/netlink/', import.meta.url);

/** A box with an empty interval set. */
async function createLab(kind: BoxKind, family: Family) {
  const box = await createBox(kind);
  const set: SetName = { family, table: 't', set: 's' };
  const nft = async (input: string) => {
    await succeed(box.run('nft', ['-f', '-'], { input }));
  };
  const type = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
  await nft(`table ${IP[family]} t {\nset s {\ntype ${type}\nflags interval\ncounter\n}\n}\n`);
  const netlink = await openNetlink(box);
  return {
    box,
    netlink,
    set,
    nft,
    /** The ranges of the set, as nft lists them. */
    async listed(): Promise<readonly string[]> {
      const json = await succeed(box.run('nft', ['-j', 'list', 'set', IP[family], 't', 's']));
      const found = JSON.parse(json).nftables.find((one: object) => 'set' in one);
      const ranges = (found.set.elem ?? []).map((one: ListedElement) => rangeOfElement(one));
      return ranges.map((range: Range) => formatRange(family, range));
    },
    /** The ranges of the set, as netlink reads them. */
    async read() {
      const elements = await netlink.elements(set);
      return elements?.ranges.map((range) => formatRange(family, range)) ?? [];
    },
    async [Symbol.asyncDispose]() {
      await netlink[Symbol.asyncDispose]();
      await box[Symbol.asyncDispose]();
    },
  };
}

/** An element in the JSON of nft(8). */
type ListedElement =
  | string
  | { readonly elem: { readonly val: ListedElement } }
  | { readonly prefix: { readonly addr: string; readonly len: number } }
  | { readonly range: readonly [string, string] };

function rangeOfElement(one: ListedElement): Range {
  if (typeof one === 'string') return rangeFrom(one);
  if ('elem' in one) return rangeOfElement(one.elem.val);
  return rangeFrom('prefix' in one ? `${one.prefix.addr}/${one.prefix.len}` : one.range.join('-'));
}

async function add(netlink: Netlink, set: SetName, ranges: readonly Range[]): Promise<void> {
  await netlink.commit(addElements(set, ranges));
}

/** The failure of a request that must fail. */
async function failureOf(request: Promise<unknown>): Promise<string> {
  const error = await request.catch((error: unknown) => error);
  assert.ok(error instanceof NetlinkError, String(error));
  return `${error.failure}: ${error.message}`;
}

/** Ranges that are not like others: the lowest and highest address, neighbours, everything. */
const EDGES: Readonly<Record<Family, readonly (readonly string[])[]>> = {
  IPv4: [
    ['0.0.0.0', '10.0.0.0/8', '11.0.0.0/8', '12.0.0.1', '12.0.0.2', '240.0.0.0/4'],
    ['0.0.0.0/1', '128.0.0.0/1'],
    ['0.0.0.0/0'],
    ['255.255.255.255'],
    ['10.0.0.1-10.0.0.9', '10.0.0.10-10.0.0.30'],
  ],
  IPv6: [
    ['::', '2001:db8::/32', '2001:db9::/32', 'ffff::/16'],
    ['::/1', '8000::/1'],
    ['::/0'],
    ['ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['fd00::1-fd00::9', 'fd00::a-fd00::1e'],
  ],
};

/** In a message: a beginning and an end, each with a key of 16 bytes. */
const BYTES_OF_A_RANGE = 64;

for (const { family, kind } of FAMILY_KINDS) {
  describe(`a set of ${family} over netlink, ${kind}`, () => {
    it('is read as nft lists it, whoever made its elements', async () => {
      await using lab = await createLab(kind, family);
      const { netlink, set, nft } = lab;
      const element = (verb: string, texts: readonly string[]) =>
        nft(`${verb} element ${IP[family]} t s { ${texts.join(', ')} }\n`);
      for (const texts of EDGES[family]) {
        const ranges = texts.map(rangeFrom);
        for (const [fill, remove] of [
          [() => element('add', texts), () => element('delete', texts)],
          [() => add(netlink, set, ranges), () => element('delete', texts)],
        ] as const) {
          await fill();
          assert.deepEqual([await lab.read(), await lab.listed()], [texts, texts]);
          await remove();
          assert.deepEqual([await lab.read(), await lab.listed()], [[], []]);
        }
      }
    });

    it('stays as it is if one of the changes cannot be made', async () => {
      await using lab = await createLab(kind, family);
      const { netlink, set } = lab;
      const [texts = []] = EDGES[family];
      const [first, second, ...others] = texts.map(rangeFrom);
      assert.ok(first !== undefined && second !== undefined);
      await add(netlink, set, [second, ...others]);
      const before = await lab.listed();
      for (const ranges of [
        [first, second],
        [first, { ...second, last: second.last - 1n }],
      ]) {
        assert.match(await failureOf(add(netlink, set, ranges)), /^changed: .*EEXIST$/);
        assert.deepEqual(await lab.listed(), before);
      }
      const missing = { ...set, set: 'missing' };
      assert.match(await failureOf(add(netlink, missing, [first])), /^changed: .*ENOENT$/);
    });
  });

  describe(`nf_tables over netlink, ${kind}`, () => {
    it('says that a change does not fit the send buffer, and what to do, and changes nothing', async () => {
      await using lab = await createLab(kind, 'IPv6');
      const ranges = (count: number) =>
        Array.from({ length: count }, (_, index) => ({ first: BigInt(4 * index), last: BigInt(4 * index) }));
      // A user namespace may not go beyond twice net.core.wmem_max; nobody may go beyond the limit of the agent.
      const most = 2 * Number(await readFile('/proc/sys/net/core/wmem_max', 'utf8'));
      const count = kind === 'userns' ? Math.min(Math.ceil(most / BYTES_OF_A_RANGE), 300_000) : 300_000;
      await assert.rejects(add(lab.netlink, lab.set, ranges(count)), (error) => {
        const { failure, message, remedy } = dataplaneError(error);
        assert.deepEqual([failure, message], ['refused', 'cannot change nf_tables: EMSGSIZE']);
        assert.match(remedy, /^use fewer CIDRs: .* raise net\.core\.wmem_max /);
        return true;
      });
      assert.deepEqual(await lab.read(), []);
      await add(lab.netlink, lab.set, ranges(1_500));
      assert.equal((await lab.read()).length, 1_500);
    });

    it('has tables, chains, sets and rules of nft, and none that are missing', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const { netlink, set } = lab;
      const chain: ChainName = { ...set, chain: 'c' };
      assert.deepEqual([await netlink.chain(chain), await netlink.rules(chain)], [undefined, []]);
      await lab.nft(`table ip t {
        chain c {
          comment "a chain"
          type nat hook postrouting priority srcnat; policy accept;
          ip daddr @s return comment "left alone"
          counter packets 3 bytes 180 masquerade
        }
        chain d { }
      }\n`);
      const table = await netlink.table(set);
      assert.deepEqual([table?.flags, table?.use], [0, 3]);
      const hook = { type: 'nat', number: 4, priority: 100, policy: 1 };
      const { handle, ...c } = (await netlink.chain(chain)) as unknown as Record<string, unknown>;
      assert.deepEqual(c, { protocol: 2, table: 't', name: 'c', use: 2, hook, comment: 'a chain' });
      assert.deepEqual(
        (await netlink.chains(set)).map(({ name }) => name),
        ['c', 'd'],
      );
      assert.deepEqual(
        (await netlink.sets(set)).map(({ name, keyType, flags }) => ({ name, keyType, flags })),
        [{ name: 's', keyType: 7, flags: 4 }],
      );
      assert.deepEqual(
        (await netlink.rules(set)).map(({ chain: name, packets, comment }) => ({ name, packets, comment })),
        [
          { name: 'c', packets: undefined, comment: 'left alone' },
          { name: 'c', packets: 3n, comment: undefined },
        ],
      );
      assert.deepEqual(await netlink.sets({ ...set, table: 'missing' }), []);
    });

    it('says which change the kernel refuses, and which part of a rule', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const place = { ...lab.set, chain: 'c', comment: 'x' };
      const hook = { type: 'nat', number: 4, priority: 100, policy: 1 };
      const rule = (...expressions: readonly KnownExpression[]) =>
        ({ kind: 'add rule', ...place, expressions }) as const;
      const missing = { name: 'lookup', set: 'missing', from: 1 } as const;
      const load = { name: 'payload', base: 1, offset: 16, to: 1, length: 4 } as const;
      const failure = await failureOf(
        lab.netlink.commit([
          { kind: 'add chain', ...place, hook },
          rule({ name: 'counter' }),
          rule(load, missing),
        ]),
      );
      assert.equal(failure, 'changed: cannot add rule ip t c (lookup): ENOENT');
      assert.equal(await lab.netlink.chain(place), undefined);
    });

    it('says which change the kernel refuses first, however many it refuses', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const names = Array.from({ length: 2_000 }, (_, index) => `c${index}`);
      const place = { family: 'IPv4', table: 't' } as const;
      const changes = names.map((chain) => ({ kind: 'delete chain', ...place, chain }) as const);
      const message = 'cannot delete chain ip t c0: ENOENT';
      await assert.rejects(lab.netlink.commit(changes), { failure: 'changed', message });
    });

    it('tells each change of a watched table or chain, with its writer unless that is this process, and no other', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const { netlink, set } = lab;
      const { id } = await netlink.generation();
      const iptables = (...args: readonly string[]) =>
        succeed(lab.box.run('iptables-nft', ['-t', 'nat', ...args]));
      await iptables('-A', 'POSTROUTING', '-j', 'MASQUERADE');
      // One transaction that touches another table first.
      await lab.nft('add table ip other\nadd chain ip other c\nadd element ip t s { 10.0.0.0/8 }\n');
      // As kube-proxy does: new chains, then all of their rules again.
      const input = ['*nat', ':OTHER - [0:0]', ':MORE - [0:0]', '-A OTHER -j MORE', '-A MORE -j MASQUERADE'];
      for (let time = 0; time < 2; time += 1)
        await succeed(
          lab.box.run('iptables-nft-restore', ['--noflush', '--counters'], {
            input: [...input, 'COMMIT', ''].join('\n'),
          }),
        );
      await lab.nft('add rule ip other c counter\n');
      await add(netlink, set, [rangeFrom('12.0.0.0/8')]);
      await lab.nft('flush ruleset\n');
      const told: TableChange[] = [];
      for (; told.length < 4; await delay(5)) {
        for (const { items, lost } of await netlink.changes()) {
          assert.equal(lost, false);
          told.push(...items);
        }
      }
      const what = told.map(({ id: at, process, touched }) => {
        return [at - id, process, touched.map(({ table }) => table).toSorted()];
      });
      assert.deepEqual(what, [
        [1, 'iptables-nft', ['nat']],
        [2, 'nft', ['t']],
        [6, undefined, ['t']],
        [7, 'nft', ['nat', 't']],
      ]);
      const own = await netlink.ownPort();
      assert.deepEqual(
        told.map(({ port }) => port === own),
        [false, false, true, false],
      );
    });

    it('tells of a table that is watched alone that it is made or deleted, and nothing when kube-proxy syncs it', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const { netlink } = lab;
      const { id } = await netlink.generation();
      // As kube-proxy begins each full sync.
      const proxySync = `
        add table ip kube-proxy { comment "rules for kube-proxy" ; }
        add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority 100 ; }
        flush chain ip kube-proxy nat-postrouting
        add set ip kube-proxy cluster-ips { type ipv4_addr ; comment "Active ClusterIPs" ; }
        flush set ip kube-proxy cluster-ips
        add element ip kube-proxy cluster-ips { 10.96.0.1 }
        add rule ip kube-proxy nat-postrouting counter masquerade\n`;
      for (const script of [
        proxySync,
        proxySync,
        proxySync,
        'delete table ip kube-proxy',
        proxySync,
        'flush ruleset',
      ])
        await lab.nft(`${script}\n`);
      const told: number[] = [];
      for (; told.length < 4; await delay(5))
        for (const { items } of await netlink.changes()) told.push(...items.map(({ id: at }) => at - id));
      assert.deepEqual(told, [1, 4, 5, 6]);
    });

    it('lets the process end whatever waits in its sockets', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const script = `
        const { execFileSync } = await import('node:child_process');
        const { openChangeWatch } = await import(${JSON.stringify(new URL('watch.ts', LIB))});
        openChangeWatch([])[Symbol.asyncIterator]().next();
        await new Promise(setImmediate);
        execFileSync('nft', ['add', 'element', 'ip', 't', 's', '{ 0.0.0.1 }']);
        process.exit(3);`;
      const args = ['--input-type=module', '--eval', script];
      const { code, stderr } = await lab.box.run(process.execPath, args);
      assert.equal(code, 3, stderr);
      assert.deepEqual(await lab.read(), ['0.0.0.1']);
    });

    it('says that it is denied without NET_ADMIN', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const script = `
        const { openChangeWatch } = await import(${JSON.stringify(new URL('watch.ts', LIB))});
        const { NfTables } = await import(${JSON.stringify(new URL('nf-tables.ts', LIB))});
        using tables = new NfTables();
        const set = { family: 'IPv4', table: 't', set: 's' };
        for (const ask of [
          async () => openChangeWatch([]),
          () => tables.generation(),
          () => tables.elements(set),
          () => tables.commit([{ kind: 'add elements', ...set, ranges: [{ first: 1n, last: 1n }] }]),
        ]) await ask().catch(({ failure }) => console.log(failure));`;
      const without = ['--bounding-set', '-net_admin', '--inh-caps', '-net_admin'];
      const node = [process.execPath, '--input-type=module', '--eval', script];
      const said = await succeed(lab.box.run('setpriv', [...without, ...node]));
      assert.equal(said, 'denied\n'.repeat(4));
    });

    it('tells that changes were lost if too many wait', async () => {
      await using lab = await createLab(kind, 'IPv4');
      const times = 20;
      const [flood, last] = await lab.netlink.flood(times, MOST_AT_ONCE);
      assert.ok(flood?.lost && flood.items.length < times, `${flood?.items.length} changes`);
      assert.deepEqual([last?.items.length, last?.lost], [1, false]);
    });
  });
}

/** What also a user namespace without a larger send buffer may do. */
const MOST_AT_ONCE = 5_000;

describe('the chains of other programs over netlink', () => {
  it('are those of type nat at postrouting, and those before connection tracking, of all families', async () => {
    await using box = await createBox();
    const base = (kind: string, hook: string, priority: number) =>
      `chain c { type ${kind} hook ${hook} priority ${priority}; }`;
    const input = [
      `table ip a { ${base('nat', 'postrouting', 100)}; }`,
      `table ip6 b { ${base('nat', 'postrouting', -5)}; }`,
      `table inet c { ${base('nat', 'postrouting', 90)}; }`,
      `table ip d { ${base('nat', 'prerouting', 0)}; }`,
      `table ip e { ${base('filter', 'prerouting', -300)}; chain other { }; }`,
      `table ip g { ${base('filter', 'postrouting', 0)}; }`,
      'table arp f { chain c { type filter hook input priority 0; }; }',
    ];
    await succeed(box.run('nft', ['-f', '-'], { input: `${input.join('\n')}\n` }));
    await using netlink = await openNetlink(box);
    const found = await netlink.natChains();
    assert.deepEqual(
      found.toSorted((one, other) => one.priority - other.priority),
      [
        { family: 'IPv4', table: 'e', chain: 'c', priority: -300, isRaw: true },
        { family: 'IPv6', table: 'b', chain: 'c', priority: -5, isRaw: false },
        { family: 'inet', table: 'c', chain: 'c', priority: 90, isRaw: false },
        { family: 'IPv4', table: 'a', chain: 'c', priority: 100, isRaw: false },
      ],
    );
  });

  it('are read up to a limit, which the error names; the socket is still good then', async () => {
    await using box = await createBox();
    const addresses = Array.from({ length: 3_000 }, (_, index) => `10.1.${index >> 8}.${index & 255}`);
    const input = [
      'table ip t {',
      `set s { type ipv4_addr; flags interval; elements = { ${addresses.join(', ')} }; }`,
      `chain big { ${'counter; '.repeat(300)} }`,
      '}',
    ];
    await succeed(box.run('nft', ['-f', '-'], { input: `${input.join('\n')}\n` }));
    await using netlink = await openNetlink(box);
    const table = { family: 'IPv4', table: 't' } as const;
    const rules = (bytes: number) => netlink.rules({ ...table, chain: 'big' }, bytes);
    assert.equal((await rules(1_000_000)).length, 300);
    const above = { failure: 'limit', message: /^cannot list .* ip t \w+: the reply is above \d+ bytes$/ };
    await assert.rejects(rules(1_000), above);
    const elements = (bytes: number) => netlink.elements({ ...table, set: 's' }, bytes);
    assert.equal((await elements(1_000_000))?.ranges.length, 3_000);
    await assert.rejects(elements(10_000), above);
  });
});
