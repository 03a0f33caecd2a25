import { UNROUTED_RANGES } from '../../lib/cidr/reserved.ts';
import type { Refusal } from '../../lib/ranges/decide.ts';
import { TELLERS } from '../../lib/ranges/sources.ts';
import { EXIT } from '../ip-masq-agent/exit.ts';
import {
  anyText,
  bindAddress,
  boolean,
  choice,
  cidrList,
  count,
  grace,
  names,
  someOf,
} from '../ip-masq-agent/flag-kinds.ts';
import { flag, type Values } from '../ip-masq-agent/flag-table.ts';
import { FLAGS as AGENT_FLAGS } from '../ip-masq-agent/flags.ts';

const TELLER_NAMES = Object.keys(TELLERS) as (keyof typeof TELLERS)[];

const HELP = {
  read: 'where to read ranges. kubeadm: podSubnet in the ConfigMap kube-system/kubeadm-config. flannel: the networks in kube-flannel/kube-flannel-cfg. calico: IPPools. nodes: podCIDRs of Nodes. What is not there is skipped',
  within:
    'ranges and addresses outside of these CIDRs are left out, with an Event and a count, because a kubelet may register any range and address',
  mostRemoved:
    'what percentage of the addresses of a family may leave the list at once. If more would leave it, nothing is written until a person accepts that by an annotation',
  first:
    'what to do about RFC 1918, which is not masqueraded as long as there is no config file at all. beside: write the first list only if one of --config-maps has a config file. rfc1918: add RFC 1918 to the list',
  maps: 'the other ConfigMaps that the agents mount. The list is written only if the agents accept it together with them',
  address:
    'address of the server for metrics and probes. If it is empty, there is no server, and the probes of a pod fail',
} as const;

/** The flags of this program alone. Parser, help and documentation use this table. */
export const OWN_FLAGS = {
  read: flag(someOf(TELLER_NAMES), TELLER_NAMES.join(), HELP.read),
  'node-addresses': flag(boolean, 'false', 'also list the InternalIPs of Nodes. This needs nodes in --read'),
  'static-ranges': flag(cidrList, '', 'CIDRs that are always in the list. --within does not bound them'),
  within: flag(cidrList, UNROUTED_RANGES.map(({ prefix }) => prefix.text).join(), HELP.within),
  grace: flag(grace, '30m', 'how long a range stays in the list after its last use'),
  'most-removed': flag(count, '50', HELP.mostRemoved),
  first: flag(choice('beside', 'rfc1918'), 'beside', HELP.first),
  'config-maps': flag(names, 'ip-masq-operator,ip-masq-cloud', HELP.maps),
  namespace: flag(anyText('NAME'), 'kube-system', 'the namespace of all these ConfigMaps'),
  'dry-run': flag(boolean, 'false', 'print the ConfigMap and which verdicts would change, and write nothing'),
  output: flag(choice('yaml', 'json'), 'yaml', 'format of the ConfigMap that --dry-run prints', 'o'),
  once: flag(boolean, 'false', 'write the list once, and exit'),
  'metrics-bind-address': flag(bindAddress, ':9615', HELP.address),
} as const;

/** It takes all flags of the agent, and uses those that say which config files the agents accept, and how it logs. */
export const FLAGS = { ...AGENT_FLAGS, ...OWN_FLAGS };

export type RangesFlags = Values<typeof FLAGS>;

/** The exit code if the list is not written, or is. */
export function exitCode(refusal: Refusal | undefined): number {
  if (refusal === undefined) return EXIT.ok;
  return refusal.reason.startsWith('un') ? EXIT.system : EXIT.config;
}
