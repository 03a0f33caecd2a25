import { type Address, formatAddress } from '../cidr/address.ts';
import { isIn } from '../cidr/ranges.ts';
import { describeChanges, type VerdictChanges } from '../policy/changes.ts';
import type { Policy } from '../policy/policy.ts';
import { uniformVerdicts, verdictsOf } from '../policy/verdicts.ts';
import type { KernelVerdict, KernelVerdicts } from './dataplane.ts';

/**
 * What the agent's rules in the kernel do with packets to an address.
 *
 * @param source the address that they come from; undefined for any that the rules ask for
 */
export function verdictAt(
  { state, from, ranges }: KernelVerdicts,
  { value }: Address,
  source?: Address,
): KernelVerdict {
  const isLeftAlone = from && !from.ranges.some((range) => source === undefined || isIn(source.value, range));
  if (isLeftAlone)
    return {
      state,
      verdict: 'not_masqueraded',
      as: undefined,
      kernelRule: `packets from ${source ? formatAddress(source) : 'anywhere'} are left alone`,
    };
  const match = ranges.find((one) => isIn(value, one));
  const isKnown = match?.verdict !== undefined;
  const { verdict = 'not_masqueraded', as, kernelRule } = match ?? {};
  return { state: isKnown ? state : 'changed', verdict, as, kernelRule };
}

/** What happens to packets if the kernel gets the policy. Without rules before, everything would change: that is said in short. */
export function describeKernelChange(before: KernelVerdicts, after: Policy): VerdictChanges {
  if (before.state === 'applied') return describeChanges(before, verdictsOf(after));
  return { summary: 'the agent had no rules before', lines: [], hadNoEffect: true };
}

/** What the rules of two dataplanes do together: it is only told if one of them has none. */
export function together(a: KernelVerdicts, b: KernelVerdicts): KernelVerdicts {
  if (a.state !== 'applied' || b.state !== 'applied') return a.state === 'applied' ? a : b;
  const kernelRule = 'rules of the agent in two places, both of which can masquerade';
  return { state: 'applied', ...uniformVerdicts(a.family, { verdict: undefined, kernelRule }) };
}
