import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { parseAddress } from '../../lib/cidr/address.ts';
import type { ConfigOptions } from '../../lib/config/config.ts';
import type { Dataplane, Plan } from '../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import { crashText, type Host } from '../../lib/dataplane/host.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import { openNftables } from '../../lib/dataplane/nftables/nftables.ts';
import type { IptablesMode, RuleOptions } from '../../lib/dataplane/options.ts';
import { compilePolicy, type Family, type Policy } from '../../lib/policy/policy.ts';
import { type Box, type BoxKind, createBox } from '../lab/box.ts';
import { hostNetlink, openNetlink } from '../lab/netlink.ts';
import { unnumbered } from '../lab/own-sets.ts';
import { owning } from '../lab/owning.ts';
import { succeed } from '../lab/run.ts';
import { IS_ROOT } from '../lab/user.ts';
import { mergedOf } from '../unit/config/support.ts';

export type { Family };

/** Root tests both ways of making a namespace, everybody else the one without privileges. */
export const BOX_KINDS: readonly BoxKind[] = IS_ROOT ? ['netns', 'userns'] : ['userns'];
const MODES: readonly IptablesMode[] = ['nft', 'legacy'];
/** With IPV4_ALONE, where the kernel has no other family. */
export const FAMILIES: readonly Family[] = process.env['IPV4_ALONE'] ? ['IPv4'] : ['IPv4', 'IPv6'];

export const CHAIN = 'IP-MASQ-AGENT';

/** What the agent does if no flag says otherwise. */
export const DEFAULTS: RuleOptions = { chain: CHAIN, randomFully: true, toPorts: [] };

/** The families as nft(8) names them; the tools of iptables begin so too. */
export const IP = { IPv4: 'ip', IPv6: 'ip6' } as const;

export type Lab = Awaited<ReturnType<typeof createLab>>;

/** Each family in a namespace of another kind. */
export const FAMILY_KINDS = FAMILIES.map((family, index) => ({ family, kind: kindOf(index) }));

/** One kind of namespace after the other. */
export function kindOf(index: number): BoxKind {
  return BOX_KINDS[index % BOX_KINDS.length] ?? 'userns';
}

type LabTests = (
  makeLab: (options?: Partial<RuleOptions>) => Promise<Lab>,
  family: Family,
  mode: IptablesMode,
) => void;

/** The same tests for every mode, each with another family and kind of namespace: the modes differ alike in both families. */
export function forEachMode(tests: LabTests): void {
  for (const [index, mode] of MODES.entries()) {
    const family = FAMILIES[index] ?? 'IPv4';
    describe(`${kindOf(index)}, ${mode}, ${family}`, () =>
      tests((options) => createLab(kindOf(index), mode, family, options), family, mode));
  }
}

export const createLab = (
  kind: BoxKind,
  mode: IptablesMode,
  family: Family,
  options: Partial<RuleOptions> = {},
) =>
  owning(async (stack) => {
    const box = stack.use(await createBox(kind));
    const { netlink } = stack.use(await hostNetlink(box));
    const { host, commands } = boxHost(box, netlink);
    const dataplane = await openIptables({ mode, ...DEFAULTS, ...options }, host);
    const command = `${IP[family]}tables-${mode}`;
    return {
      box,
      host,
      /** Every command that the dataplane has run, in order. */
      commands,
      dataplane,
      mode,
      family,
      /** Runs iptables or ip6tables of the mode, which must succeed; returns its output. */
      iptables: (...args: readonly string[]) => succeed(box.run(command, ['-t', 'nat', ...args])),
      /** Feeds lines of `nat` to iptables-restore. */
      restore: async (...lines: readonly string[]) => {
        const input = ['*nat', ...lines, 'COMMIT', ''].join('\n');
        await succeed(box.run(`${command}-restore`, ['--noflush'], { input }));
      },
      sync: (policy: Policy) => syncOnce(dataplane, policy),
      remove: async () => {
        const plan = (await dataplane.observe(family)).planRemoval();
        await plan?.apply();
        return plan;
      },
    };
  });

export type NftablesLab = Awaited<ReturnType<typeof createNftablesLab>>;

export const createNftablesLab = (kind: BoxKind = kindOf(0), options: Partial<RuleOptions> = {}) =>
  owning(async (stack) => {
    const box = stack.use(await createBox(kind));
    const { netlink } = stack.use(await hostNetlink(box));
    const { host, commands } = boxHost(box, netlink);
    const open = (more: Partial<RuleOptions>) => openNftables({ ...DEFAULTS, ...options, ...more }, host);
    const dataplane = open({});
    return {
      box,
      dataplane,
      /** Every command that the dataplane has run, in order. */
      commands,
      /** Another dataplane, which remembers nothing. */
      open,
      /** Runs a script of sh, or of nft, which must succeed; returns its output. */
      sh: (script: string) => succeed(box.run('sh', ['-ec', script])),
      nft: (script: string) => succeed(box.run('nft', ['-f', '-'], { input: `${script}\n` })),
      sync: (policy: Policy) => syncOnce(dataplane, policy),
    };
  });

/** Observes and plans, then applies; the plan, or undefined if nothing differed. */
export async function syncOnce(dataplane: Dataplane, policy: Policy): Promise<Plan | undefined> {
  const plan = (await dataplane.observe(policy.family)).plan(policy);
  await plan?.apply();
  return plan;
}

/** As the agent syncs: after a failure it tries again. */
export async function sync(dataplane: Dataplane, policy: Policy): Promise<void> {
  try {
    await syncOnce(dataplane, policy);
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    await syncOnce(dataplane, policy);
  }
}

/** Whether the kernel holds the policy. */
export async function isInSync(dataplane: Dataplane, policy: Policy): Promise<boolean> {
  return (await dataplane.observe(policy.family)).plan(policy) === undefined;
}

/** Brings the policy into the kernel as the agent does, and reads it back. */
export async function settle(dataplane: Dataplane, policy: Policy): Promise<void> {
  await sync(dataplane, policy);
  assert.equal(await isInSync(dataplane, policy), true);
}

/** A box, what reads and changes nf_tables in it, and the host that a dataplane in it has. */
export const createNetlinkBox = (kind: BoxKind) =>
  owning(async (stack) => {
    const box = stack.use(await createBox(kind));
    const netlink = stack.use(await openNetlink(box));
    const { host } = boxHost(box, stack.use(await hostNetlink(box)).netlink);
    return { box, netlink, host };
  });

/** A process that owns a table until it ends: the table then goes, of which no event tells. */
export async function ownTable(box: Box, table: string, content = '') {
  const owner = box.spawn('nft', ['-i'], { stdio: ['pipe', 'ignore', 'inherit'] });
  const waitUntil = async (isThere: boolean) => {
    while ((await succeed(box.run('nft', ['list', 'tables']))).includes(table) !== isThere) await delay(10);
  };
  const end = async () => {
    owner.kill();
    await waitUntil(false);
  };
  owner.stdin?.write(`table ${table} { flags owner; ${content} }\n`);
  await waitUntil(true);
  return { pid: owner.pid, end, [Symbol.dispose]: () => void owner.kill() };
}

/** The inside of the box as a dataplane sees it. */
export function boxHost(
  box: Box,
  netlink?: Host['netlink'],
): { readonly host: Host; readonly commands: readonly string[] } {
  const commands: string[] = [];
  const host: Host = {
    ...(netlink && { netlink }),
    run: async (file, args, input) => {
      commands.push([file, ...args].join(' '));
      const { code, signal, ...said } = await box.run(file, args, input === undefined ? {} : { input });
      if (code === null) return { ...said, code: 139, stderr: crashText(signal) };
      return { code, ...said };
    },
    readText: async (path) => {
      const { code, stdout, stderr } = await box.run('cat', [path]);
      if (code === 0) return stdout;
      return stderr.includes('No such file') ? '' : undefined;
    },
  };
  return { host, commands };
}

/** The policy that config files of these texts ask for on a node with these addresses; no text means the defaults. */
export function policyOf(
  family: Family,
  texts: Readonly<Record<string, string>>,
  options: Partial<ConfigOptions> = {},
  own: readonly string[] = [],
): Policy {
  const addresses = own.flatMap((text) => parseAddress(text) ?? []);
  return compilePolicy(mergedOf(texts, options), family, addresses);
}

/** What nft lists on a new node that holds the policy. */
const listings = new WeakMap<Policy, Promise<string>>();

async function listingOf(policy: Policy): Promise<string> {
  await using node = await createNftablesLab('userns');
  await node.sync(policy);
  return unnumbered(await node.nft(`list table ${IP[policy.family]} ip-masq-agent`));
}

/** Holds what the policy says, letter for letter as a new node would. */
export async function assertExact(node: NftablesLab, policy: Policy): Promise<void> {
  assert.equal(await isInSync(node.dataplane, policy), true);
  const expected = listings.get(policy) ?? listingOf(policy);
  listings.set(policy, expected);
  assert.equal(unnumbered(await node.nft(`list table ${IP[policy.family]} ip-masq-agent`)), await expected);
}
