import type { MergedConfig } from '../../../lib/config/config.ts';
import type { Dataplane, KernelVerdict, Observed } from '../../../lib/dataplane/dataplane.ts';
import type { Host } from '../../../lib/dataplane/host.ts';
import { explainForeign, type ForeignVerdict } from '../../../lib/neighbours/find.ts';
import { isLocal } from '../../../lib/neighbours/local.ts';
import { type Explanation, explain } from '../../../lib/policy/decision.ts';
import { type Address, keptFamilies } from '../../../lib/policy/policy.ts';

/** What becomes of traffic to an address. */
export interface Answer {
  /** What the config says. */
  readonly explanation: Explanation;
  /** False for IPv6 where it is not enabled: whatever the config says, the agent keeps no rules then. */
  readonly isKept: boolean;
  /** What the kernel does; undefined where it was not asked. */
  readonly live: LiveAnswer | undefined;
}

/** What the kernel of this node does with traffic to an address. */
export interface LiveAnswer {
  /** Whether it is an address of the node itself, which no rule of ours concerns. */
  readonly isLocal: boolean;
  readonly kernel: KernelVerdict;
  /** Whether our rules in the kernel do what the config says. */
  readonly agrees: boolean;
  readonly foreign: ForeignVerdict;
  /** What could not be read of the rules of others. */
  readonly unread: readonly string[];
}

/** What the config says of an address. */
export function answer(config: MergedConfig, address: Address, enableIPv6: boolean): Answer {
  const explanation = explain(config, address);
  return { explanation, isKept: keptFamilies(enableIPv6).includes(address.family), live: undefined };
}

/**
 * What the config says of addresses, and what the kernel does.
 *
 * @throws {DataplaneError}
 */
export async function liveAnswers(
  config: MergedConfig,
  addresses: readonly Address[],
  enableIPv6: boolean,
  dataplane: Dataplane,
  host: Host,
): Promise<readonly Answer[]> {
  const families = (['IPv4', 'IPv6'] as const).filter((wanted) =>
    addresses.some(({ family }) => family === wanted),
  );
  const { baseChains, unread } = await dataplane.survey(families);
  const observed: Partial<Record<Address['family'], Observed>> = {};
  const answers: Answer[] = [];
  for (const address of addresses) {
    const said = answer(config, address, enableIPv6);
    const seen = observed[address.family] ?? (await dataplane.observe(address.family));
    observed[address.family] = seen;
    const kernel = seen.verdict(address);
    const foreign = explainForeign(baseChains, address);
    const agrees = agree(said, kernel);
    answers.push({
      ...said,
      live: { isLocal: await isLocal(host, address), kernel, agrees, foreign, unread },
    });
  }
  return answers;
}

/** Of a family that is off, the kernel is to hold nothing of ours. */
function agree({ explanation, isKept }: Answer, { state, verdict }: KernelVerdict): boolean {
  if (!isKept) return state === 'no chain';
  return state === 'applied' && verdict === explanation.verdict;
}
