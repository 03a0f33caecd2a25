import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { parseAddress } from '../../lib/cidr/address.ts';
import type { ConfigOptions } from '../../lib/config/config.ts';
import type { Dataplane, Plan } from '../../lib/dataplane/dataplane.ts';
import { DataplaneError } from '../../lib/dataplane/error.ts';
import type { Host } from '../../lib/dataplane/host.ts';
import { openIptables } from '../../lib/dataplane/iptables/iptables.ts';
import type { IptablesMode, RuleOptions } from '../../lib/dataplane/options.ts';
import { compilePolicy, type Family, type Policy } from '../../lib/policy/policy.ts';
import { type Box, type BoxKind, createBox } from '../lab/box.ts';
import { hostNetlink, openNetlink, WITH_NETLINK } from '../lab/netlink.ts';
import { IS_ROOT } from '../lab/user.ts';
import { mergedOf } from '../unit/config/support.ts';

export type { Family };

/** Root tests both ways of making a namespace, everybody else the one without privileges. */
export const BOX_KINDS: readonly BoxKind[] = IS_ROOT ? ['netns', 'userns'] : ['userns'];
/** Legacy mode is never read over netlink: without it, its tests would be the same. */
export const MODES: readonly IptablesMode[] = WITH_NETLINK ? ['nft', 'legacy'] : ['nft'];
/** With IPV4_ALONE, where the kernel has no other family. */
export const FAMILIES: readonly Family[] = process.env['IPV4_ALONE'] ? ['IPv4'] : ['IPv4', 'IPv6'];

export const CHAIN = 'IP-MASQ-AGENT';

export interface Lab extends AsyncDisposable {
  readonly box: Box;
  readonly host: Host;
  /** Every command that the dataplane has run, in order. */
  readonly commands: readonly string[];
  readonly dataplane: Dataplane;
  readonly mode: IptablesMode;
  readonly family: Family;
  /** Runs iptables or ip6tables of the mode, which must succeed; returns its output. */
  iptables(...args: string[]): Promise<string>;
  /** Feeds lines of `nat` to iptables-restore. */
  restore(...lines: string[]): Promise<void>;
  /** Observes, plans and applies; the plan, or undefined where nothing differed. */
  sync(policy: Policy): Promise<Plan | undefined>;
  remove(): Promise<Plan | undefined>;
}

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

export async function createLab(
  kind: BoxKind,
  mode: IptablesMode,
  family: Family,
  options: Partial<RuleOptions> = {},
): Promise<Lab> {
  await using stack = new AsyncDisposableStack();
  const box = stack.use(await createBox(kind));
  const { netlink } = stack.use(await hostNetlink(box));
  const { host, commands } = boxHost(box, netlink);
  const dataplane = await openIptables(
    { mode, chain: CHAIN, randomFully: true, toPorts: [], ...options },
    host,
  );
  const command = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}`;
  const must = async (file: string, args: readonly string[], input?: string) => {
    const { code, stdout, stderr } = await box.run(file, args, input === undefined ? {} : { input });
    assert.equal(code, 0, `${file} ${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  const owned = stack.move();
  return {
    box,
    host,
    commands,
    dataplane,
    mode,
    family,
    iptables: (...args) => must(command, ['-t', 'nat', ...args]),
    restore: async (...lines) => {
      await must(`${command}-restore`, ['--noflush'], ['*nat', ...lines, 'COMMIT', ''].join('\n'));
    },
    sync: (policy) => syncOnce(dataplane, policy),
    remove: async () => {
      const plan = (await dataplane.observe(family)).planRemoval();
      await plan?.apply();
      return plan;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Observes and plans, then applies; the plan, or undefined if nothing differed. */
export async function syncOnce(dataplane: Dataplane, policy: Policy): Promise<Plan | undefined> {
  const plan = (await dataplane.observe(policy.family)).plan(policy);
  await plan?.apply();
  return plan;
}

/** As the agent syncs: what the kernel refuses to change singly is made again. */
export async function sync(dataplane: Dataplane, policy: Policy): Promise<void> {
  try {
    await syncOnce(dataplane, policy);
  } catch (error) {
    if (!(error instanceof DataplaneError)) throw error;
    await (await dataplane.observe(policy.family, true)).plan(policy)?.apply();
  }
}

/** Whether the kernel holds the policy. */
export async function isInSync(dataplane: Dataplane, policy: Policy): Promise<boolean> {
  return (await dataplane.observe(policy.family)).plan(policy) === undefined;
}

/** A box, what reads and changes nf_tables in it, and the host that a dataplane in it has. */
export async function createNetlinkBox(kind: BoxKind) {
  await using stack = new AsyncDisposableStack();
  const box = stack.use(await createBox(kind));
  const netlink = stack.use(await openNetlink(box));
  const { host } = boxHost(box, stack.use(await hostNetlink(box)).netlink);
  const owned = stack.move();
  return { box, netlink, host, [Symbol.asyncDispose]: () => owned.disposeAsync() };
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
      if (code === null) throw new Error(`${file} was ended by ${signal}`);
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
