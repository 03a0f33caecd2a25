import type { Address } from '../cidr/address.ts';
import { isIn } from '../cidr/ranges.ts';
import { describeChanges, type VerdictChanges } from '../policy/changes.ts';
import { type Fate, fatesOf, sideBySide } from '../policy/fates.ts';
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

/** What the rules of two dataplanes do together: a packet is masqueraded if either masquerades it. */
export function together(a: KernelFates, b: KernelFates): KernelFates {
  if (a.state !== 'applied' || b.state !== 'applied') return a.state === 'applied' ? a : b;
  const fates = Array.from(sideBySide(a, b), ({ first, last, before, after }): Fate => {
    const masquerades = [before, after].find(({ verdict }) => verdict === 'masquerade');
    const decides = masquerades ?? (before.verdict === undefined ? before : after);
    return { ...decides, first, last };
  });
  return { state: 'applied', family: a.family, fates };
}
