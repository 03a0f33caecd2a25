import { FAMILIES, type Family } from '../../cidr/address.ts';
import type { Policy } from '../../policy/policy.ts';
import {
  BY_FLAG,
  COMMENT_START,
  type Dataplane,
  type Draft,
  type EntryCount,
  type Plan,
  type RuleLocation,
} from '../dataplane.ts';
import type { Host } from '../host.ts';
import { noAnswer, type Requests } from '../netlink.ts';
import type { IptablesMode, IptablesOptions, RuleOptions } from '../options.ts';
import { type ChainRule, renderChain, renderJump, secondChain } from './chain.ts';
import { type Detected, detectMode } from './detect.ts';
import { inTurns, usesLegacyNat } from './legacy.ts';
import { joinChains, type ObservedRule, readChains } from './observe.ts';
import { observe } from './observe-text.ts';
import { describeUndeletable, plan, planRemoval } from './plan.ts';
import { type KernelRule, keyOf } from './rule.ts';
import { createTool } from './tool.ts';
import { kernelVerdicts } from './verdict.ts';

/**
 * The policy as one chain of `nat`, entered from POSTROUTING.
 *
 * @param reason why it is used; if no flag has chosen it, the kernel is asked whether it supports such rules
 * @throws {DataplaneError} if no iptables of the mode is installed, or it fails
 */
export async function openIptables(
  options: IptablesOptions,
  host: Host,
  reason: string = BY_FLAG,
): Promise<Dataplane> {
  const detected = await detectMode(host, options.mode);
  if (reason === BY_FLAG) return iptablesDataplane(detected, options, host);
  // In legacy mode the search for the mode has asked the kernel, and takes it only if others use it.
  if (detected.mode === 'nft')
    await createTool(host, 'IPv4', detected.suffix).testSupport(renderJump('MASQUERADE'));
  return iptablesDataplane({ ...detected, reason: `${reason}; ${detected.reason}` }, options, host);
}

/**
 * The rule locations of a mode of iptables: a family each.
 *
 * @throws {DataplaneError} if no iptables of the mode is installed, or it fails
 */
export async function iptablesLocations(
  mode: IptablesMode,
  options: RuleOptions,
  host: Host,
): Promise<readonly RuleLocation[]> {
  const dataplane = iptablesDataplane(await detectMode(host, mode), options, host);
  const families: Family[] = [];
  for (const family of FAMILIES)
    if (mode === 'nft' || (await usesLegacyNat(host, family)) !== false) families.push(family);
  return families.map((family) => ({ dataplane, family }));
}

export function iptablesDataplane(
  { mode, suffix, version, reason }: Detected,
  options: RuleOptions,
  host: Host,
): Dataplane {
  const { chain } = options;
  const runner = inTurns(host, mode);
  const tools = { IPv4: createTool(runner, 'IPv4', suffix), IPv6: createTool(runner, 'IPv6', suffix) };
  // In legacy mode nothing is in nf_tables, and a request could load its modules.
  const netlink = mode === 'nft' ? host.netlink : undefined;
  const bound = (draft: Draft | undefined): Plan | undefined =>
    draft && { ...draft, apply: () => tools[draft.family].restore(draft.script) };
  const readOver = (requests: Requests, family: Family) =>
    readChains(requests, family, chain, options.mostObjects);
  const read = async (family: Family, rewrite: boolean) => {
    const reading = await netlink?.read((asked) => readOver(asked, family)).catch(noAnswer);
    if (reading !== undefined) return reading;
    const how = { mayHide: mode === 'nft', rewrite, most: options.mostObjects };
    return { found: await observe(tools[family], chain, how), generation: undefined };
  };
  const readCounts = async (family: Family): Promise<readonly ObservedRule[]> => {
    const observed = await netlink?.use((asked) => readOver(asked, family)).catch(noAnswer);
    if (observed !== undefined) return observed.rules ?? [];
    const list = (name: string) => tools[family].listCounts(name);
    return joinChains(chain, await list(chain), await list(secondChain(chain))).rules ?? [];
  };
  return {
    name: `iptables ${version} (${mode})`,
    reason,
    warning: options.invalidPackets === 'drop' ? NOTHING_DROPPED : undefined,
    iptables: { mode, suffix },
    ruleCount: (policy) => renderChain(policy, options).length,
    async observe(family, rewrite = false) {
      const { found, generation } = await read(family, rewrite);
      return {
        generation,
        plan: (policy) => bound(plan(found, policy, options)),
        planRemoval: () => bound(planRemoval(found, chain)),
        describeUndeletable: (policy) => describeUndeletable(found, options, policy),
        verdicts: () => kernelVerdicts(found, chain),
        text: () =>
          planRemoval(found, chain)
            ?.current.map((line) => `${line}\n`)
            .join(''),
      };
    },
    count: async (policy) => countRules(await readCounts(policy.family), policy, options),
    get hearsChanges() {
      return netlink?.isUnavailableForGood === false;
    },
  };
}

const NOTHING_DROPPED =
  '--invalid-packets=drop has no effect: the rules are in iptables; use --backend=nftables, or leave it to kube-proxy, which drops such packets in its iptables mode';

/** The counts of the rules that the policy asks for. */
function countRules(
  counted: readonly ObservedRule[],
  policy: Policy,
  options: RuleOptions,
): readonly EntryCount[] {
  const wanted = renderChain(policy, options);
  const byText = new Map(wanted.map((rule) => [`${rule.chain} ${rule.spec}`, rule]));
  let byKey: ReadonlyMap<string, ChainRule> | undefined;
  const wantedAs = (rule: KernelRule): ChainRule | undefined => {
    const found = byText.get(`${rule.chain} ${rule.spec}`);
    if (found !== undefined || !rule.spec.includes(COMMENT_START)) return found;
    byKey ??= new Map(wanted.map((one) => [keyOf(one), one]));
    return byKey.get(keyOf(rule));
  };
  return counted.flatMap(({ packets = 0n, ...rule }) => {
    const { entry, verdict } = wantedAs(rule) ?? {};
    return verdict === undefined ? [] : [{ entry, countedAs: verdict, packets }];
  });
}
