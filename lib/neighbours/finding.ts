import type { Family } from '../policy/policy.ts';

/** Something on the node that breaks masquerading, or may. */
export interface Finding {
  readonly kind: FindingKind;
  /** Absent where it is about the node as a whole. */
  readonly family?: Family;
  /** One sentence. */
  readonly message: string;
  /** What was seen: rules, lines of files, words of tools. */
  readonly evidence: readonly string[];
  /** What to do about it. */
  readonly remedy: string;
}

/** Every kind of finding, with what it means. */
export const FINDING_MEANING = {
  'config-unreadable': 'the config directory is missing or unreadable',
  'config-invalid': 'the sources have errors',
  'config-empty': 'there is no source, so the defaults apply',
  'no-capability': 'the capability NET_ADMIN or NET_RAW is missing',
  'tool-missing': 'what keeps the rules (iptables, ip6tables, nft) is not installed or too old',
  'kernel-refused': 'the kernel or a tool refused',
  'out-of-sync': 'chain or jump of ours are not as the config wants them',
  'jump-not-last': 'rules of POSTROUTING follow our jump',
  'foreign-rule': 'a rule of somebody else may masquerade what the config leaves alone',
  'bpf-masquerade': 'BPF programs may masquerade past all rules',
  'both-modes': 'both iptables modes hold rules in nat',
  'chain-elsewhere': 'rules of ours are in a dataplane or iptables mode that is not used',
  'forwarding-off': 'the kernel does not forward packets',
  'not-looked-at': 'something could not be looked at',
} as const;

export type FindingKind = keyof typeof FINDING_MEANING;
