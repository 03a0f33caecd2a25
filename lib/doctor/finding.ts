import type { Family } from '../policy/policy.ts';
import type { Advice } from '../text/advice.ts';

/** Something on the node that breaks masquerading, or may break it. */
export interface Finding extends Advice {
  readonly kind: FindingKind;
  /** Absent if the finding is about the whole node. */
  readonly family?: Family;
  /** Rules, lines of files, or output of tools. */
  readonly evidence: readonly string[];
}

export const FINDING_MEANING = {
  'config-invalid': 'the config files have errors, or cannot be read',
  'config-file-gone': 'the last text of a config file that is gone still applies',
  'nothing-inside': 'the config masquerades all traffic of a family, also between pods',
  'everything-inside': 'the config masquerades no traffic of a family (alone, the exit code is 0)',
  'node-address': 'the node has no address, or several, in a range of masqueradeAddresses',
  'pods-masqueraded': 'routes of the node lead to pods that the config masquerades',
  'tool-missing':
    'a tool that the agent needs (iptables, ip6tables) is not installed or too old, or netlink does not work, which nftables needs',
  'kernel-refused': 'the kernel or a tool refused an operation',
  'pods-left-out': 'masqueradeFromCIDRs does not list the pods of this node',
  'no-agent': "the agent's rules are there, but no agent runs",
  'agent-silent': 'an agent runs, but does not answer',
  'out-of-sync': "the agent's rules differ from the config",
  'older-agent': "ip-masq-agent v1 or v2 has written rules for the agent's chain",
  'flows-against-policy':
    'the kernel treats connections of pods differently from what the config says: another program decides about them',
  'chain-elsewhere': 'rules of the agent are in a dataplane or iptables mode that it does not use',
  'taken-ports': '--to-ports holds ports that NodePorts or tunnels use',
  'uplink-address':
    'masqueraded packets leave by the default route with another address than the source of that route, or by a link that has no address',
  'not-read': 'the doctor could not read something',
} as const;

export type FindingKind = keyof typeof FINDING_MEANING;
