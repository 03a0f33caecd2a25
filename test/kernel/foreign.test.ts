import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { prefixesOf } from '../../lib/cidr/ranges.ts';
import { type ForeignRule, findForeignRules, interestOf } from '../../lib/foreign/find.ts';
import type { NodeRules } from '../../lib/foreign/read-node.ts';
import { readNode } from '../../lib/foreign/read-node.ts';
import { ALL, FOREIGN_PROGRAMS } from '../lab/foreign-iptables.ts';
import { NATIVE } from '../lab/foreign-nftables.ts';
import { COMMON, kubeProxyRules } from '../lab/kube-proxy.ts';
import { openNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { rulesOf } from '../unit/foreign/support.ts';
import {
  BOX_KINDS,
  CHAIN,
  createLab,
  FAMILY_KINDS,
  type Family,
  forEachMode,
  IP,
  type Lab,
  policyOf,
} from './support.ts';

/** Without netlink, nobody knows how much memory a listing would need. */
const NEEDS_NETLINK = 'NETLINK=off: foreign rules are not read';

/** What the agent leaves alone in these tests, besides link-local. */
const INSIDE: Readonly<Record<Family, string>> = { IPv4: '10.0.0.0/8', IPv6: 'fd00::/8' };

const policy = (family: Family) =>
  policyOf(family, { 'ip-masq-x': `nonMasqueradeCIDRs: ["${INSIDE[family]}"]` });

/** What the agent sees of its own family, where it uses iptables of the lab's mode. */
async function read(lab: Lab): Promise<NodeRules> {
  const iptables = { mode: lab.mode, suffix: `-${lab.mode}` };
  return await readNode(lab.host, { families: [lab.family], ownChain: CHAIN, iptables });
}

async function find(lab: Lab): Promise<readonly ForeignRule[]> {
  const { baseChains, unread } = await read(lab);
  assert.deepEqual(unread, []);
  const found = await findForeignRules(baseChains, interestOf(policy(lab.family)));
  assert.deepEqual(found.unread, []);
  return found.rules;
}

/** Author, destinations, and conditions. */
function summary({ author, destinations, conditions }: ForeignRule): string {
  const prefixes = prefixesOf(destinations).map(({ text }) => text);
  return `${author.name}: ${prefixes.join(' ')}${conditions.length === 0 ? '' : ` if ${conditions.join(', ')}`}`;
}

async function nft(lab: Lab, script: string): Promise<void> {
  const { code, stderr } = await lab.box.run('nft', ['-f', '-'], { input: script });
  assert.equal(code, 0, stderr);
}

describe('foreign rules of iptables', { skip: !WITH_NETLINK && NEEDS_NETLINK }, () => {
  forEachMode((makeLab, family) => {
    it('are silent on a clean node', async () => {
      await using lab = await makeLab();
      assert.deepEqual(await find(lab), []);
      await lab.restore(...COMMON);
      await lab.restore(
        ':CNI-HOSTPORT-MASQ - [0:0]',
        '-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ',
        '-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE',
      );
      await lab.sync(policy(family));
      assert.deepEqual(await find(lab), []);
    });

    for (const { name, lines, found } of FOREIGN_PROGRAMS) {
      it(`of ${name} are found, before and behind our own`, async () => {
        await using lab = await makeLab();
        await lab.restore(...COMMON);
        await lab.restore(...lines[family]);
        const rules = await find(lab);
        assert.deepEqual(rules.map(summary), found[family]);
        await lab.iptables('-F', 'POSTROUTING');
        await lab.sync(policy(family));
        await lab.restore(...lines[family].filter((line) => line.startsWith('-A POSTROUTING')));
        assert.deepEqual(
          (await find(lab)).map(({ key }) => key),
          rules.map(({ key }) => key),
        );
      });
    }
  });
});

/** Services in one transaction: a user namespace may not raise the netlink buffer that a transaction must fit in. */
const PART = { netns: 500, userns: 20 };

describe('foreign rules of nftables', { skip: !WITH_NETLINK && NEEDS_NETLINK }, () => {
  for (const { family, kind } of FAMILY_KINDS) {
    for (const [index, { name, script, found }] of NATIVE.entries()) {
      // The agent's own mode makes no difference to them.
      const mode = index % 2 === 0 ? 'nft' : 'legacy';
      it(`of ${name} are found (${kind}, ${family}, ${mode})`, async () => {
        await using lab = await createLab(kind, mode, family);
        await nft(lab, script);
        await lab.sync(policy(family));
        assert.deepEqual((await find(lab)).map(summary), found[family]);
      });
    }

    it(`are found in a table of iptables, which iptables then cannot read (${kind}, ${family})`, async () => {
      await using lab = await createLab(kind, 'nft', family);
      await lab.restore(...COMMON);
      // Everything is masqueraded by our own chain here, which must not be taken for somebody else's.
      await lab.sync(policyOf(family, { 'ip-masq-x': 'masqLinkLocal: true\nmasqLinkLocalIPv6: true' }));
      const inside = family === 'IPv4' ? '10.9.0.0/16' : 'fd09::/16';
      const ip = IP[family];
      const type = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
      await nft(lab, `add set ${ip} nat site { type ${type}; flags interval; elements = { ${inside} }; }`);
      await nft(lab, `add rule ${ip} nat POSTROUTING ${ip} daddr @site masquerade`);
      await nft(lab, `add chain ${ip} nat mine { type nat hook postrouting priority 90; }`);
      await nft(lab, `add rule ${ip} nat mine oifname "eth9" masquerade`);
      assert.deepEqual((await find(lab)).map(summary), [
        `unknown: ${inside}`,
        `unknown: ${ALL[family]} if oifname "eth9"`,
      ]);
    });

    it(`are found whatever names nft gives them (${kind}, ${family})`, async () => {
      await using lab = await createLab(kind, 'nft', family);
      const at = { family: IP[family], table: 'maps' };
      const hook = { type: 'nat', hook: 'postrouting', prio: 90, policy: 'accept' };
      const odd = 'it is; odd';
      const added = [
        { table: { family: at.family, name: at.table } },
        { chain: { ...at, name: 'chain', ...hook } },
        { chain: { ...at, name: odd } },
        { rule: { ...at, chain: 'chain', expr: [{ jump: { target: odd } }] } },
        { rule: { ...at, chain: odd, expr: [{ masquerade: null }] } },
      ];
      const script = JSON.stringify({ nftables: added.map((one) => ({ add: one })) });
      const { code, stderr } = await lab.box.run('nft', ['-j', script]);
      assert.equal(code, 0, stderr);
      await lab.sync(policy(family));
      const rules = await find(lab);
      assert.deepEqual(rules.map(summary), [`unknown: ${ALL[family]}`]);
      assert.deepEqual(rules[0]?.path, [`chain chain: jump ${odd}`, `chain ${odd}: masquerade`]);
    });

    it(`are known by the name of an ipset (${kind}, ${family})`, async () => {
      await using lab = await createLab(kind, 'nft', family);
      await using netlink = await openNetlink(lab.box);
      // Pods that reach themselves through a Service, in IPVS mode.
      const set = family === 'IPv4' ? 'KUBE-LOOP-BACK' : 'KUBE-6-LOOP-BACK';
      await netlink.createIpset(family, set);
      const line = (name: string) =>
        `-A POSTROUTING -m set --match-set ${name} dst,dst,src -j MASQUERADE --random-fully`;
      await lab.restore(line(set));
      const [chain] = [...((await read(lab)).baseChains[0]?.chains.values() ?? [])];
      assert.deepEqual(
        (await rulesOf(chain)).map(({ text }) => text),
        [line(set)],
      );
    });

    it(`are found in the mode of iptables that the agent does not use (${kind}, ${family})`, async () => {
      for (const [own, other] of [
        ['nft', 'legacy'],
        ['legacy', 'nft'],
      ] as const) {
        await using lab = await createLab(kind, own, family);
        const command = family === 'IPv4' ? 'iptables' : 'ip6tables';
        const args = ['-t', 'nat', '-A', 'POSTROUTING', '-j', 'MASQUERADE'];
        assert.equal((await lab.box.run(`${command}-${other}`, args)).code, 0);
        await lab.sync(policy(family));
        const rules = await find(lab);
        assert.deepEqual(rules.map(summary), [`unknown: ${ALL[family]}`], own);
        assert.deepEqual(
          rules.map(({ chainText }) => chainText),
          [`${command} (${other}) nat POSTROUTING`],
        );
      }
    });
  }
});

describe('a node with 75,000 rules of kube-proxy', { skip: !WITH_NETLINK && NEEDS_NETLINK }, () => {
  it('has those chains read that packets meet behind POSTROUTING, without a tool', async (t) => {
    const kind = BOX_KINDS[0] ?? 'userns';
    await using lab = await createLab(kind, 'nft', 'IPv4');
    for (const part of kubeProxyRules(75_000, PART[kind])) await lab.restore(...part);
    await lab.restore(...(FOREIGN_PROGRAMS.find(({ name }) => name.includes('IP-MASQ'))?.lines.IPv4 ?? []));
    await lab.sync(policy('IPv4'));
    const before = lab.commands.length;
    const start = performance.now();
    const rules = await find(lab);
    t.diagnostic(`${Math.round(performance.now() - start)} ms`);
    assert.deepEqual(rules.map(summary), ['a cloud node setup (IP-MASQ): 10.128.0.0/9']);
    // In a user namespace nobody may read which legacy tables are in use; the agent has to ask then.
    const commands = lab.commands.slice(before).filter((command) => !command.startsWith('iptables-legacy'));
    assert.deepEqual(commands, []);
  });
});
