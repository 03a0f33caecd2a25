import { isDeepStrictEqual } from 'node:util';
import { FAMILIES, type Family } from '../../cidr/address.ts';
import type { Policy } from '../../policy/policy.ts';
import {
  BY_FLAG,
  type ChosenBy,
  COMMENT_START,
  type Dataplane,
  type Draft,
  type Plan,
  type Reason,
  type RuleCount,
  type RuleLocation,
} from '../dataplane.ts';
import type { Host } from '../host.ts';
import { KernelMemory } from '../memory.ts';
import type { IptablesMode, IptablesOptions, RuleOptions } from '../options.ts';
import { renderChain } from './chain.ts';
import { type Detected, detectMode } from './detect.ts';
import { inTurns, usesLegacyNat } from './legacy.ts';
import { type IptablesObservation, observe, readChains } from './observe.ts';
import { describeUndeletable, NO_RULES, plan, planRemoval } from './plan.ts';
import { type KernelRule, keyOf } from './rule.ts';
import { type SeenChain, seeChain } from './see.ts';
import { type CountedRule, createTool } from './tool.ts';
import { kernelVerdicts } from './verdict.ts';

/**
 * The policy as one chain of `nat`, entered from POSTROUTING.
 *
 * @throws {DataplaneError} if no iptables of the mode is installed, or it fails
 */
export async function openIptables(
  options: IptablesOptions,
  host: Host,
  { by, reason }: Reason = BY_FLAG,
): Promise<Dataplane> {
  const detected = await detectMode(host, options.mode);
  const whole = by === 'flag' ? detected.reason : `${reason}; ${detected.reason}`;
  return iptablesDataplane({ ...detected, reason: whole }, options, host, by);
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
  chosenBy: ChosenBy = 'flag',
): Dataplane {
  const { chain } = options;
  const runner = inTurns(host, mode);
  const tools = { IPv4: createTool(runner, 'IPv4', suffix), IPv6: createTool(runner, 'IPv6', suffix) };
  // In legacy mode nothing is in nf_tables, and a request could load its modules.
  const netlink = mode === 'nft' ? host.netlink : undefined;
  const memory = new KernelMemory<IptablesObservation, SeenChain>(
    netlink,
    (requests, family) => seeChain(requests, family, chain),
    isSame,
  );
  /** Families with a second chain that stays: without netlink, it is read until it is gone. */
  const left = new Set<Family>();
  const bound = (draft: Draft | undefined): Plan | undefined => {
    if (draft === undefined) return undefined;
    const { family, script, remakes } = draft;
    const restore = () => tools[family].restore(script);
    return { ...draft, apply: () => memory.write(family, remakes, restore) };
  };
  return {
    name: `iptables ${version} (${mode})`,
    reason,
    chosenBy,
    iptables: { mode, suffix },
    ruleCount: (policy) => renderChain(policy, options).length,
    async observe(family, wanted = 'usual') {
      const depth = wanted === 'usual' && left.has(family) ? 'leftovers' : wanted;
      const look = await memory.look(family, async (seen, known) => {
        if (known !== undefined) return known;
        // The kernel has none of the agent's rules.
        if (seen !== undefined && seen.fingerprint === undefined) return { ...NO_RULES, family };
        const seenByTool = await observe(tools[family], chain, { netlink, depth });
        if (Array.isArray(seenByTool.leftover)) left.add(family);
        else if (seenByTool.leftover === 'none') left.delete(family);
        return seenByTool;
      });
      const { found, isTrusted, generation } = look;
      return {
        isTrusted,
        generation,
        plan: (policy) => bound(plan(found, policy, options)),
        trust: () => memory.trust(family, look),
        planRemoval: () => bound(planRemoval(found, chain)),
        describeUndeletable: (policy) => describeUndeletable(found, options, policy),
        verdicts: () => kernelVerdicts(found, chain),
        text: () =>
          planRemoval(found, chain)
            ?.current.map((line) => `${line}\n`)
            .join(''),
      };
    },
    count: (policy) =>
      memory.count(policy.family, async () => {
        const known = await memory.recall(policy.family);
        const list = (name: string) => tools[policy.family].listCounts(name);
        const counted = known ? countsSeen(known.found, known.seen) : (await readChains(chain, list)).rules;
        return countRules(counted ?? [], policy, options);
      }),
    get hearsChanges() {
      return netlink?.isUnavailableForGood === false;
    },
    knownUntil: (families) => memory.knownUntil(families),
  };
}

/** Whether two observations are the same. A second chain that is left over is rare, and only some observations read it. */
function isSame(a: IptablesObservation, b: IptablesObservation): boolean {
  const isUnknown = a.leftover === undefined || b.leftover === undefined;
  return (
    isDeepStrictEqual([a.rules, a.jumps, a.unseen], [b.rules, b.jumps, b.unseen]) &&
    (isUnknown || isDeepStrictEqual(a.leftover, b.leftover))
  );
}

type Counted = KernelRule & CountedRule;

function countsSeen({ rules = [] }: IptablesObservation, { packets }: SeenChain): readonly Counted[] {
  return rules.map((rule, index) => ({ ...rule, packets: packets[index] ?? 0n }));
}

/**
 * The counts of the rules that the policy asks for. Mostly iptables prints the texts that the agent has written, in their
 * order. Only others of the agent's rules are compared word by word, because that takes ten times as long.
 */
function countRules(counted: readonly Counted[], policy: Policy, options: RuleOptions): readonly RuleCount[] {
  const wanted = renderChain(policy, options);
  let next = 0;
  let byKey: ReadonlyMap<string, number> | undefined;
  const counts: RuleCount[] = [];
  for (const { chain, spec, packets } of counted) {
    const expected = wanted[next];
    let index = expected?.spec === spec && expected.chain === chain ? next : undefined;
    if (index === undefined && spec.includes(COMMENT_START)) {
      byKey ??= new Map(wanted.map((one, at) => [keyOf(one), at]));
      index = byKey.get(keyOf({ chain, spec }));
    }
    const rule = index === undefined ? undefined : wanted[index];
    if (index === undefined || rule === undefined) continue;
    next = index + 1;
    const { entry, verdict } = rule;
    if (verdict !== undefined) counts.push({ ruleId: rule.spec, entry, countedAs: verdict, packets });
  }
  return counts;
}
