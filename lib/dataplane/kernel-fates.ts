import type { Address } from '../cidr/address.ts';
import { isIn } from '../cidr/ranges.ts';
import { describeChanges, type VerdictChanges } from '../policy/changes.ts';
import { fatesOf } from '../policy/fates.ts';
import type { Policy } from '../policy/policy.ts';
import type { KernelFates, KernelVerdict } from './dataplane.ts';

/** What the agent's rules in the kernel do with packets to an address. */
export function verdictAt({ state, fates }: KernelFates, { value }: Address): KernelVerdict {
  const fate = fates.find((one) => isIn(value, one));
  const isKnown = fate?.verdict !== undefined;
  return { state: isKnown ? state : 'changed', verdict: fate?.verdict ?? 'return', rule: fate?.rule };
}

/** What happens to packets if the kernel gets the policy. Without rules before, everything would change: that is said in short. */
export function describeKernelChange(before: KernelFates, after: Policy): VerdictChanges {
  if (before.state === 'applied') return describeChanges(before, fatesOf(after));
  return { summary: "before, the agent's rules masqueraded nothing", lines: [] };
}
