import { FAMILIES, type Family } from '../../cidr/address.ts';
import type { Dataplane, EntryCount, Plan, RuleLocation } from '../dataplane.ts';
import type { Host } from '../host.ts';
import { noAnswer, readIfChanged } from '../netlink.ts';
import type { IptablesMode, IptablesOptions, RuleOptions } from '../options.ts';
import { type ChainRule, renderChain, renderJump, secondChain } from './chain.ts';
import { type Detected, detectMode } from './detect.ts';
import { inTurns, usesLegacyNat } from './legacy.ts';
import { readNat } from './nat-state.ts';
import { type IptablesObservation, observe } from './observe.ts';
import { type ChainDraft, plan, planRemoval } from './plan.ts';
import { type KernelRule, sameRule } from './rule.ts';
import { createTool } from './tool.ts';
import { kernelVerdicts } from './verdict.ts';

/**
 * The policy as one chain of `nat`, entered from POSTROUTING.
 *
 * @param chosen why it is used; the kernel is asked whether it supports such rules of these families. Absent if a flag asks for it
 * @throws {DataplaneError} if no iptables of the mode is installed, or it fails
 */
export async function openIptables(
  options: IptablesOptions,
  host: Host,
  chosen?: { readonly reason: string; readonly families: readonly Family[] },
): Promise<Dataplane> {
  const detected = await detectMode(host, options.mode);
  if (chosen === undefined) return iptablesDataplane(detected, options, host);
  const runner = inTurns(host, detected.mode);
  for (const family of chosen.families)
    await createTool(runner, family, detected.suffix).finds('POSTROUTING', renderJump('MASQUERADE'));
  return iptablesDataplane({ ...detected, reason: `${chosen.reason}; ${detected.reason}` }, options, host);
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
  const families = { IPv4: new Knowledge(), IPv6: new Knowledge() };
  const second = secondChain(chain);
  const readChanged = readIfChanged<IptablesObservation>(
    async () => await netlink?.generation().catch(noAnswer),
    async (family) => {
      const known = families[family];
      const nat = await netlink
        ?.use((requests) => readNat(requests, family, [chain, second]))
        .catch(noAnswer);
      const candidates = nat?.chains ?? (known.looksForSecond ? [chain, second] : [chain]);
      const found = await observe(tools[family], { chain, candidates, most: options.mostObjects });
      known.looksForSecond = found.chains.includes(second);
      return { ...found, obstacle: nat?.obstacle };
    },
    ({ obstacle }) => obstacle !== undefined,
  );
  const apply = async ({ family, script, deletes }: ChainDraft): Promise<void> => {
    const { undeletable } = families[family];
    undeletable.clear();
    await tools[family].restore(script);
    for (const name of deletes) {
      const said = await tools[family].deleteChain(name);
      if (said !== undefined) undeletable.set(name, said);
    }
  };
  const bound = (draft: ChainDraft | undefined): Plan | undefined =>
    draft && { ...draft, apply: () => apply(draft) };
  return {
    name: `iptables ${version} (${mode})`,
    reason,
    warning: options.invalidPackets === 'drop' ? NOTHING_DROPPED : undefined,
    iptables: { mode, suffix },
    ruleCount: (policy) => renderChain(policy, options).length,
    async observe(family) {
      const { undeletable } = families[family];
      const { found, generation } = await readChanged(family);
      const removal = () => planRemoval(found);
      return {
        generation,
        plan: (policy) => bound(plan(found, policy, options, (name) => undeletable.has(name))),
        planRemoval: () => bound(removal()),
        describeUndeletable: () => [...undeletable].map(([name, said]) => undeletableText(name, said)),
        verdicts: () => kernelVerdicts(found, chain),
        text: () =>
          removal()
            ?.current.map((line) => `${line}\n`)
            .join(''),
      };
    },
    async count(policy) {
      const wanted = renderChain(policy, options);
      const counted: CountedRule[] = [];
      for (const name of new Set(wanted.map((rule) => rule.chain)))
        for (const rule of await tools[policy.family].listCounts(name))
          counted.push({ ...rule, chain: name });
      return countRules(counted, wanted);
    },
    get hearsChanges() {
      return netlink?.isUnavailableForGood === false;
    },
  };
}

/** What the dataplane knows of one family. */
class Knowledge {
  /**
   * Without netlink, whether the next reading looks for the second chain even if the first one does not lead to it: at first, and as
   * long as it is there. Only the agent makes one, and the first chain then leads to it.
   */
  looksForSecond = true;
  /** The chains that iptables did not delete at the last change, and what it said. */
  readonly undeletable = new Map<string, string>();
}

function undeletableText(chain: string, said: string): string {
  return `chain ${chain} stays, empty, because iptables does not delete it: ${said}; if a rule of another program leads to it, remove that rule in the other program: cleanup then deletes the chain, and so does an agent that does not use it, when it next changes its rules or starts`;
}

const NOTHING_DROPPED =
  '--invalid-packets=drop has no effect: the rules are in iptables; use --backend=nftables, or leave it to kube-proxy, which drops such packets in its iptables mode';

type CountedRule = KernelRule & { readonly packets: bigint };

/** The counts of the rules that a policy asks for. Rules in another order are not those of the policy. */
function countRules(counted: readonly CountedRule[], wanted: readonly ChainRule[]): readonly EntryCount[] {
  return counted.flatMap(({ packets, chain, spec }, index) => {
    const meant = wanted[index];
    const isMeant = meant?.chain === chain && sameRule(meant.spec, spec);
    if (!isMeant || meant.verdict === undefined) return [];
    return [{ entry: meant.entry, countedAs: meant.verdict, packets }];
  });
}
