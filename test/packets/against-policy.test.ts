import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Flow } from '../../lib/netlink/conntrack.ts';
import { createNode, eventually, inside, type NodeLab, SERVED } from '../e2e/support.ts';
import { createNeighbour } from '../lab/box.ts';
import { startTracker } from '../lab/helpers.ts';
import { createNetwork, NODE, POD } from '../lab/network.ts';
import { owning } from '../lab/owning.ts';
import { ip } from '../lab/pod-links.ts';
import { succeed } from '../lab/run.ts';
import { startStreams } from '../lab/stream.ts';
import { PORT } from '../lab/volley.ts';
import { BACKENDS, NO_LAB } from './support.ts';

const INSIDE = '10.1.1.1';
const OUTSIDE = '203.0.113.9';
const PODS = '-s 10.244.0.0/16';
const OTHER = '192.0.2.77';

/** Rules of another program, as lines of iptables without the table, or a table of nft. */
interface Foreign {
  readonly name: string;
  readonly nat?: readonly string[];
  readonly raw?: readonly string[];
  readonly nft?: string;
  /** The kinds of dataplanes in which it has this effect; all without it. */
  readonly only?: RegExp;
}

interface Against extends Foreign {
  readonly to: string;
  /** The source that packets leave with. */
  readonly as: string;
  /** How the suspect is called and where it is. */
  readonly suspect: RegExp;
}

const post = (body: string, priority: number, table = 'ip site') =>
  `table ${table} { chain post { type nat hook postrouting priority ${priority}; ${body}; }; }`;

const AGAINST: readonly Against[] = [
  {
    name: 'flannel',
    nat: [
      '-N FLANNEL-POSTRTG',
      '-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG',
      `-A FLANNEL-POSTRTG ${PODS} ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully`,
    ],
    to: INSIDE,
    as: NODE.IPv4,
    suspect: /: flannel, table ip nat, chain FLANNEL-POSTRTG \(masquerading: 1 rule\)/,
  },
  {
    name: 'an ACCEPT before the jump',
    nat: [`-I POSTROUTING ${PODS} -j ACCEPT`],
    to: OUTSIDE,
    as: POD.IPv4,
    suspect:
      /before the agent's rules: an unknown program, table ip nat, chain POSTROUTING \(ending NAT early: 1 rule\)/,
    only: /iptables/,
  },
  {
    name: 'SNAT to a foreign address',
    nat: [`-I POSTROUTING ${PODS} -j SNAT --to-source ${OTHER}`],
    to: INSIDE,
    as: OTHER,
    suspect: /before the agent's rules: an unknown program, table ip nat, chain POSTROUTING \(SNAT: 1 rule\)/,
  },
  {
    name: 'a verdict map that leads to the rule',
    nft: 'table inet site { chain hidden { masquerade; }; chain post { type nat hook postrouting priority 200; ip saddr vmap { 10.244.0.0/16 : goto hidden }; }; }',
    to: INSIDE,
    as: NODE.IPv4,
    suspect:
      /after the agent's rules: an unknown program, table inet site, chain post \(leading to chains that are not read: 1 rule\)/,
  },
];

/** kube-proxy's nftables mode, and what it marks: harmless. */
const KUBE_PROXY = {
  name: 'kube-proxy',
  nft: `table ip kube-proxy {
  chain services { type nat hook prerouting priority dstnat; ip daddr { 10.96.0.1, ${NODE.IPv4} } meta mark set meta mark or 0x4000 dnat to ${INSIDE}; }
  chain masquerading { meta mark and 0x4000 == 0 return; meta mark set meta mark xor 0x4000; masquerade fully-random; }
  chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
}`,
};

/** Its packets to a node port are masqueraded, those to a Service not. */
const KUBE_PROXY_IPVS: Foreign = {
  name: 'kube-proxy in IPVS mode',
  nat: [
    '-N KUBE-POSTROUTING',
    `-A PREROUTING -d ${NODE.IPv4} -j MARK --set-xmark 0x4000/0x4000`,
    '-I POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
    '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
  ],
};

const NO_IPVS = existsSync('/proc/sys/net/ipv4/vs') ? false : 'this kernel has no ip_vs';

type Lab = Awaited<ReturnType<typeof createLab>>;

const createLab = () =>
  owning(async (stack) => {
    const node = stack.use(await createNode());
    const network = stack.use(await createNetwork(node.box));
    const tracker = stack.use(await startTracker(node.box));
    const docker = stack.use(await createNeighbour(node.box));
    await ip(
      node.box,
      `route add ${POD.IPv4} dev pod0`,
      'link add docker0 type bridge',
      `link add veth1 type veth peer name eth0 netns ${docker.pid}`,
      'link set veth1 master docker0',
      'link set veth1 up',
      'link set docker0 up',
      'address add 172.17.0.1/16 dev docker0',
    );
    await ip(
      docker,
      'link set eth0 up',
      'address add 172.17.0.2/16 dev eth0',
      'route add default via 172.17.0.1',
    );
    const container = stack.use(await network.witness.openSender(docker));
    const restore = async (table: string, lines: readonly string[] = []) => {
      const input = [`*${table}`, ...lines, 'COMMIT', ''].join('\n');
      if (lines.length > 0) await succeed(node.box.run('iptables-nft-restore', ['--noflush'], { input }));
    };
    await node.volume({ 'ip-masq-x': inside('10.0.0.0/8') });
    return {
      node,
      network,
      /** The source that a packet to the destination has outside, from the pod or from a container of Docker. */
      seen: async (destination: string, from?: 'container') => {
        const sender = from === undefined ? network : container;
        const [seen] = await sender.sourcesSeen([destination]);
        return seen?.address ?? '';
      },
      async write({ nat, raw, nft }: Foreign) {
        await restore('nat', nat);
        await restore('raw', raw);
        if (nft !== undefined) await node.nft(nft);
      },
      async undo({ nat, raw, nft }: Foreign) {
        // A new chain goes last.
        const inverse = (lines: readonly string[] = []) =>
          lines.toReversed().map((line) => line.replace(/^-[AI] /, '-D ').replace(/^-N /, '-X '));
        await restore('nat', inverse(nat));
        await restore('raw', inverse(raw));
        const [table] = /(?<=^table )\w+ [\w-]+/.exec(nft ?? '') ?? [];
        if (table !== undefined) await node.nft(`delete table ${table}`);
      },
      /** Forgets all connections. */
      async forget() {
        for (const flow of await tracker.ask<readonly Flow[]>({ kind: 'read' }))
          await tracker.ask({ kind: 'delete', flow });
      },
    };
  });

const doctor = async (lab: Lab, flags: readonly string[]) => {
  const { stdout } = await lab.node.agent('doctor', ...flags);
  const [finding] = /^flows-against-policy.*\n(?: .*\n)*/m.exec(stdout) ?? [];
  return { stdout, finding };
};

/** Each of its readings takes a process. */
const isExplained = ({ name }: Foreign) => /flannel|before the jump/.test(name);

for (const { name, flags } of BACKENDS) {
  const isMeant = ({ only }: Foreign) => only?.test(name) ?? true;
  describe(`connections of pods that another program treats otherwise (${name})`, { skip: NO_LAB }, () => {
    it('are found, with who it may be; in health none is', async () => {
      await using lab = await createLab();
      const { node } = lab;
      assert.equal((await node.agent('--once', ...flags)).code, 0);
      const explain = async (to: string) =>
        (await node.agent('explain', '--live', `--from=${POD.IPv4}`, ...flags, to)).stdout;
      for (const foreign of AGAINST.filter(isMeant)) {
        await lab.write(foreign);
        if (isExplained(foreign)) {
          const before = await explain(foreign.to);
          assert.match(before, foreign.suspect, foreign.name);
          assert.match(
            before,
            /the agent's rules (?:masquerade it|leave it alone); the chains? of .* (?:first|too)$/m,
          );
          assert.match(before, /^ {2}leaves by .*, if the agent's rules decide$/m);
        }
        assert.equal(await lab.seen(foreign.to), foreign.as, foreign.name);
        const { finding, stdout } = await doctor(lab, flags);
        assert.match(finding ?? stdout, new RegExp(`udp ${POD.IPv4}:\\d+ to ${foreign.to}:`), foreign.name);
        assert.match(finding ?? '', foreign.suspect, foreign.name);
        const left = foreign.as === POD.IPv4 ? 'with its own address' : `with ${foreign.as}`;
        assert.match(
          await explain(foreign.to),
          new RegExp(`which left ${left}: it began before`),
          foreign.name,
        );
        await lab.undo(foreign);
        await lab.forget();
      }
      await lab.write({
        name: 'Docker',
        nat: ['-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE'],
      });
      await lab.write(KUBE_PROXY);
      assert.equal(await lab.seen(INSIDE), POD.IPv4);
      assert.equal(await lab.seen(OUTSIDE), NODE.IPv4);
      assert.equal(await lab.seen(INSIDE, 'container'), NODE.IPv4);
      for (const service of ['10.96.0.1', NODE.IPv4])
        assert.equal(await lab.seen(service), NODE.IPv4, service);
      const { finding, stdout } = await doctor(lab, flags);
      assert.equal(finding, undefined);
      assert.match(stdout, /connections: none against the config/);
      const explained = (await node.agent('explain', '--live', ...flags, INSIDE)).stdout;
      assert.match(explained, new RegExp(`172\\.17\\.0\\.2:.* which left with ${NODE.IPv4}$`, 'm'));
      assert.doesNotMatch(explained, /it began before/);
    });

    it('are found in IPVS mode of kube-proxy as little as in the others', { skip: NO_IPVS }, async () => {
      await using lab = await createLab();
      const { node } = lab;
      assert.equal((await node.agent('--once', ...flags)).code, 0);
      await lab.write(KUBE_PROXY_IPVS);
      await ip(node.box, 'link add kube-ipvs0 type dummy', 'address add 10.96.0.1/32 dev kube-ipvs0');
      for (const service of ['10.96.0.1', NODE.IPv4]) {
        await node.run('ipvsadm', '-A', '-u', `${service}:${PORT}`, '-s', 'rr');
        await node.run('ipvsadm', '-a', '-u', `${service}:${PORT}`, '-r', `${INSIDE}:${PORT}`, '-m');
      }
      await node.run('sysctl', '-w', 'net.ipv4.vs.conntrack=1');
      assert.equal(await lab.seen('10.96.0.1'), POD.IPv4);
      assert.equal(await lab.seen(NODE.IPv4), NODE.IPv4);
      assert.equal(await lab.seen(OUTSIDE), NODE.IPv4);
      const { finding, stdout } = await doctor(lab, flags);
      assert.equal(finding, undefined, stdout);
      assert.match(stdout, /connections: none against the config/);
    });

    it('cannot be seen if they are not tracked, but doctor and explain name who does that', async () => {
      await using lab = await createLab();
      const { node } = lab;
      assert.equal((await node.agent('--once', ...flags)).code, 0);
      await lab.write({ name: 'NOTRACK', raw: [`-A PREROUTING ${PODS} -j CT --notrack`] });
      assert.equal(await lab.seen(OUTSIDE), POD.IPv4);
      const { stdout, finding } = await doctor(lab, flags);
      assert.equal(finding, undefined, stdout);
      const explained = await node.agent('explain', '--live', `--from=${POD.IPv4}`, ...flags, OUTSIDE);
      const suspect =
        /untracks packets here, before the agent's rules: an unknown program, .*table (?:ip )?raw, chain PREROUTING \(turning connection tracking off, .*nothing shows how the packets leave: 1 rule\)/;
      assert.match(stdout, suspect);
      assert.match(explained.stdout, suspect);
      assert.match(
        explained.stdout,
        /the agent's rules masquerade it; the chain of an unknown program comes first/,
      );
    });

    it('are counted as begun since the last change, and those of before as what they are', async () => {
      await using lab = await createLab();
      await using streams = await startStreams(lab.network.pod, lab.network.outside);
      const { node } = lab;
      // As kube-proxy does: with its rules the kernel tracks connections.
      await node.nft(post('ct state new counter', 90, 'ip service'));
      await streams.advance([OUTSIDE]);
      const agent = node.start(...flags, SERVED);
      await agent.logged(/metrics, probes and status on/);
      const counts = (expected: string, nudge = () => {}) =>
        eventually(
          async () => {
            nudge();
            return (await series(node)) === expected;
          },
          () => expected,
        );
      await counts('not_masqueraded before 1');
      await lab.write({ name: 'other', nat: [`-I POSTROUTING ${PODS} -d 10.0.0.0/8 -j MASQUERADE`] });
      await streams.advance([OUTSIDE, INSIDE]);
      agent.kill('SIGHUP');
      await counts('masqueraded after 1, not_masqueraded before 1');
      assert.doesNotMatch(agent.log(), /another program decides/);
      agent.kill('SIGHUP');
      await agent.logged(
        /10\.1\.1\.1:\d+: masqueraded as .*1 connection: 1 masqueraded \(IPv4\) against the config, begun since/,
      );
      const { stdout } = await doctor(lab, flags);
      assert.match(stdout, /of which 1 began before/);
      await node.run('ip', 'address', 'add', '198.51.100.7/32', 'dev', 'uplink0');
      // A reading of before the agent notices the address tells the old.
      await counts('masqueraded before 1, not_masqueraded before 1', () => agent.kill('SIGHUP'));
      await streams.advance([OUTSIDE, INSIDE]);
      await agent.stop();
    });
  });
}

const SERIES = /flows_against_policy\{family="IPv4",verdict="(\w+)",since="(\w+)"\} ([1-9]\d*)$/gm;

async function series(node: NodeLab): Promise<string> {
  const found = Array.from((await node.metrics()).matchAll(SERIES), ([, ...values]) => values.join(' '));
  return found.toSorted().join(', ');
}
