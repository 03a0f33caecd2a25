import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CONFIG_FILE, NODE_ADDRESSES, type Setting, setAddresses, WAY_FLAGS } from '../e2e/fresh.ts';
import { BINARY, createNode, eventually, type NodeLab, type RunningAgent } from '../e2e/support.ts';
import { watchGenerations } from '../lab/generations.ts';
import { kernelState } from '../lab/kernel-state.ts';
import { oldNft, RELEASES, type Release, withoutTools } from '../lab/releases.ts';

const NFTABLES: Pick<Setting, 'way' | 'addresses'> = { way: 'nftables', addresses: NODE_ADDRESSES };

/** Few rules, and all kinds of rules. Some ranges end at the highest address. */
export const SETTINGS = {
  'few rules': {
    ...NFTABLES,
    config: JSON.stringify({ nonMasqueradeCIDRs: ['10.0.0.0/8', '224.0.0.0/4', 'fd00::/8', 'ff00::/8'] }),
    flags: ['--enable-ipv6'],
  },
  'all rules': {
    ...NFTABLES,
    config: JSON.stringify({
      nonMasqueradeCIDRs: [
        ...['10.0.0.0/8', '172.16.0.0/12', '224.0.0.0/4', '255.255.255.255/32'],
        ...['fd00::/8', 'ff00::/8', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128'],
      ],
      masqueradeCIDRs: ['10.1.0.0/16', 'fd01::/16'],
      masqueradeFromCIDRs: ['10.244.0.0/16', '240.0.0.0/4', 'fd44::/16', 'fe00::/7'],
      masqueradeAddresses: [
        { destination: '198.51.100.0/24', address: '192.0.2.0/25' },
        { destination: '240.0.0.0/4', address: '192.0.2.128/25' },
        { destination: '2001:db8:1::/48', address: '2001:db8::/64' },
      ],
    }),
    flags: [
      '--enable-ipv6',
      '--invalid-packets=drop',
      '--random-fully=tcp',
      '--to-ports=1024-2000,3000-4000',
    ],
  },
} as const satisfies Record<string, Setting>;

/** Ranges that the sets of all rules hold, in the words of every nft. 0.9.8 has other words for an open end of IPv6. */
export const RANGES_OF_ALL = [
  ...'10.0.0.0/16 10.2.0.0-10.255.255.255 169.254.0.0/16 172.16.0.0/12 224.0.0.0/4'.split(' '),
  ...'fd00::/16 fd02::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80::/10 10.244.0.0/16 fd44::/16'.split(' '),
];

/** A node that has the addresses and the config of the setting, and no rules. */
export async function nodeWith(setting: Setting, binary?: string): Promise<NodeLab> {
  const node = await createNode(binary);
  await setAddresses(node.box, setting.addresses);
  await configure(node, setting);
  return node;
}

/** Makes a program of the file: the agent, which finds programs only in this directory. */
export async function writeAgentWith(directory: string, file: string): Promise<void> {
  await writeFile(file, `#!/bin/sh\nPATH=${directory} exec ${BINARY} "$@"\n`);
  await chmod(file, 0o755);
}

/** Writes the only config file of the node. */
export async function configure({ configDir }: NodeLab, { config }: Setting): Promise<void> {
  await writeFile(join(configDir, CONFIG_FILE), config);
}

/** The flags of a sync, or of another command that is to compare with it. */
export function flagsOf({ way, flags }: Setting): readonly string[] {
  return [...WAY_FLAGS[way], ...flags];
}

/** Syncs once, which must succeed. */
export async function syncOnce(node: NodeLab, ...flags: readonly string[]): Promise<void> {
  const { code, signal, stderr } = await node.agent('--once', ...flags);
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, stderr);
}

/** Works, and fails if nf_tables commits anything meanwhile. */
export async function writesNothing(node: NodeLab, work: () => Promise<void>): Promise<void> {
  await using generations = await watchGenerations(node.box);
  await work();
  // What was committed before is told before.
  await node.run('iptables-nft', '-N', 'AFTERWARDS');
  assert.equal((await generations.next()).process, 'iptables-nft');
}

/** Runs nft of the release with the script; it must succeed. */
export async function feed(node: NodeLab, release: Release, script: string): Promise<void> {
  const { code, signal, stderr } = await node.box.run(oldNft(release), ['-f', '-'], { input: script });
  assert.equal(signal ?? code, 0, `nft of ${release}: ${signal ?? code}: ${stderr}`);
}

/** What nft of the release prints, in answer to these arguments; it must succeed. */
export async function printed(node: NodeLab, release: Release, ...args: readonly string[]): Promise<string> {
  const { code, signal, stdout, stderr } = await node.box.run(oldNft(release), args);
  assert.equal(signal ?? code, 0, `nft of ${release} ${args.join(' ')}: ${signal ?? code}: ${stderr}`);
  return stdout;
}

/** Every nft that is here must be able to list all that is on the node. */
export async function listsWellEverywhere(node: NodeLab): Promise<void> {
  for (const release of RELEASES.filter((one) => !withoutTools(one)))
    await printed(node, release, 'list', 'ruleset');
}

/** The agent's tables of both families, as the machine's nft lists them, without counts. */
export async function ownTables({ box }: NodeLab): Promise<string> {
  return (await kernelState(box, NFTABLES.way)).own;
}

/** Waits until the agent's tables are these. Fails at once if the agent ends. */
export async function becomes(node: NodeLab, agent: RunningAgent, wanted: string): Promise<void> {
  let hasEnded = false;
  void agent.ended.then(() => {
    hasEnded = true;
  });
  await eventually(
    async () => {
      if (hasEnded) assert.fail(`the agent has ended:\n${agent.log()}`);
      return (await ownTables(node)) === wanted;
    },
    () => `the agent's tables; it has logged:\n${agent.log()}`,
  );
}
