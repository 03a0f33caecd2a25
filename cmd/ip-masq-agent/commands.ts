import { type Commands, command } from './command.ts';
import {
  CHECK_FLAGS,
  CLEANUP_FLAGS,
  EXPLAIN_FLAGS,
  FLEET_FLAGS,
  INPUT_FLAGS,
  OUTPUT_FLAGS,
  RENDER_FLAGS,
} from './command-flags.ts';
import { DATAPLANE_FLAGS, FLAGS, type FlagName, POLICY_FLAGS } from './flags.ts';

const CONFIG_FLAGS: readonly FlagName[] = ['config-dir', ...POLICY_FLAGS];
const KERNEL_FLAGS: readonly FlagName[] = [...DATAPLANE_FLAGS, 'sync-timeout'];

export const COMMANDS: Commands = {
  run: command({
    summary:
      'sync, then follow the config files and the kernel until it is stopped; this is the default command',
    own: {},
    uses: Object.keys(FLAGS) as FlagName[],
    examples: {
      '--enable-ipv6':
        'in a DaemonSet with host network: read /etc/config/ip-masq-*, keep IPv4 and IPv6 rules',
      '--once --config-dir=./config --log-format=text --v=3':
        'sync once from another directory, and log syncs that change nothing too, as text',
      '--iptables-mode=nft --to-ports=10000-29999,32768-51819':
        'set the mode instead of detecting it; use no NodePorts, and no ports of tunnels, for masqueraded connections',
    },
    load: async () => (await import('./run/run.ts')).run,
  }),
  check: command({
    summary: 'validate and merge config files; this needs neither root nor the kernel',
    details:
      'A PATH is a config file, a YAML or JSON file of manifests with ConfigMaps, a directory of both (files ip-masq-*, *.yaml, *.yml, *.json), or - for standard input. If there is no PATH, the command reads --config-dir as the agent does. All PATHs are merged as if they were mounted on one node. In a ConfigMap, every key that begins with ip-masq- is a config file. If the manifests have workloads of the agent, the command checks each by itself, with the config files that kubelet gives it and with its own arguments. Flags of the command line win over these arguments. The exit code is 3 if there is an error, or nothing to check, and 4 if only assertions of --expect are broken.',
    operands: '[PATH…]',
    own: CHECK_FLAGS,
    uses: [...CONFIG_FLAGS, 'to-ports'],
    examples: {
      'check --expect=assertions.txt config-custom.yaml config-reconciled.yaml':
        'find mistakes before you apply them, and test what they do to addresses',
      'check --strict -R -o github manifests': 'in a pipeline: annotate the lines of a pull request',
      'check --enable-ipv6 -': 'check the output of `kubectl get configmap -o yaml` on standard input',
    },
    asksAgent: ({ filename }, operands) => filename.length + operands.length === 0,
    load: async () => (await import('./check.ts')).check,
  }),
  explain: command({
    summary: 'say whether traffic to an address or a range is masqueraded, and which entry decides',
    operands: 'ADDRESS…',
    own: EXPLAIN_FLAGS,
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: {
      'explain 10.1.2.3 172.16.0.0/12':
        'say what the config does with an address and a range; a range is cut where another entry decides',
      'explain -f manifests -R 10.1.2.3': 'say what the ConfigMaps in a directory would do',
      'explain --live 10.1.2.3 169.254.169.254':
        'on a node: also say whether the kernel agrees, and what else does NAT',
    },
    asksAgent: () => true,
    load: async () => (await import('./explain/explain.ts')).explain,
  }),
  diff: command({
    summary: 'show what a sync would change in the kernel now',
    details:
      'The command changes nothing. Below the rules it prints the addresses whose verdict changes, compared with what the chain in the kernel does now, also if ip-masq-agent v1 or v2 made it. The exit code is 0 if a sync would change nothing, and 4 if it would change something.',
    own: INPUT_FLAGS,
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: {
      diff: 'on a node, with the flags of its agent unless you give others',
      'diff -f manifests/ip-masq.yaml': 'see what another config would change',
    },
    asksAgent: () => true,
    load: async () => (await import('./diff.ts')).diff,
  }),
  render: command({
    summary: 'print the rules, or the merged config for other programs',
    own: RENDER_FLAGS,
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: {
      'render --format=config --flatten':
        'for a program that reads one file and does not know masqueradeCIDRs',
      'render -R -f main/manifests --diff-to=manifests':
        'for a pull request, with the main branch in another directory: see what it changes for packets',
      'render --live': 'on a node that has no nft: see what the kernel holds',
    },
    asksAgent: () => true,
    load: async () => (await import('./render/render.ts')).render,
  }),
  doctor: command({
    summary:
      'check the node for what breaks masquerading: other programs that decide about packets, pods that the config leaves out, missing tools, rules that differ from the config',
    details:
      'The command changes nothing. The exit code is 0 if it finds nothing, 3 if the config is invalid, and 4 if it finds something else.',
    own: OUTPUT_FLAGS,
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: {
      doctor: 'on a node, with the flags of its agent',
      'doctor --enable-ipv6 -o json': 'for a program that collects the findings of all nodes',
    },
    asksAgent: () => true,
    load: async () => (await import('./doctor.ts')).doctor,
  }),
  status: command({
    summary:
      'show the state of the agent on this node: version, dataplane, config, last sync, whether its rules are in sync',
    details:
      'The command asks the running agent over the socket of its lock, and reads neither config nor kernel. The exit code is 0 if all is well, 1 if no agent answers, 3 if its config is invalid, and 4 if its rules are not in sync.',
    own: OUTPUT_FLAGS,
    examples: {
      status: 'in the pod of the agent',
      'status -o json': 'for programs',
    },
    load: async () => (await import('./status.ts')).status,
  }),
  ports: command({
    summary: 'list the destinations with the most source ports in use, and the pods that use them',
    details:
      'The command reads connection tracking over netlink, and changes nothing. For each destination and its port, each address of the node has the ports of --to-ports, or else 1024-65535 (600-1023 and 1-511 for lower ports of pods). If all of these are in use, new connections to the destination fail.',
    own: OUTPUT_FLAGS,
    uses: ['to-ports'],
    examples: {
      ports: 'on a node, with the flags of its agent',
      'ports -o json': 'for programs',
    },
    asksAgent: () => true,
    load: async () => (await import('./ports.ts')).ports,
  }),
  cleanup: command({
    summary: "remove all of the agent's rules: both families, both iptables modes, nftables",
    details:
      'The command succeeds if there is nothing to remove. It refuses while an agent runs on this node, because the agent would write the rules again. Stop the agent first.',
    own: CLEANUP_FLAGS,
    uses: ['masq-chain', 'state-dir', 'sync-timeout'],
    examples: {
      'cleanup --dry-run': 'see what it would remove',
      cleanup: 'after the DaemonSet is deleted',
      'cleanup --masq-chain=OLD-NAME': 'if the agent used another chain',
    },
    asksAgent: (flags) => flags['dry-run'],
    load: async () => (await import('./cleanup.ts')).cleanup,
  }),
  fleet: command({
    summary:
      'run status, doctor, check, explain or ports with the agents of all nodes through kubectl, or bundle their answers for a bug report',
    details:
      "The command runs on an operator's machine, with the rights and the config of kubectl there. It is also a plugin of kubectl: kubectl ip-masq COMMAND. fleet ports names the destinations for which ports run out first on any node. Equal answers are one group, and the smallest group comes first. The numbers of all groups add up to the number of nodes. The exit code is that of the worst node: 1 if it has no agent or gives no answer, else 3 if its config is invalid, else 4 if something was found, else 0. fleet bundle FILE.tgz writes a file for a bug report instead. It holds the versions, the answers of each node to status, doctor, check and, if addresses follow, explain --live, and the last 1,000 lines of each log, without what they quote from config files. The exit code is then 0 if the file is written.",
    operands: 'COMMAND [FILE] [ADDRESS…]',
    own: FLEET_FLAGS,
    examples: {
      'fleet status --context=prod --node-selector=pool=edge':
        'see which nodes of a pool differ from the others, and how',
      'fleet explain --live 10.1.2.3': 'see what each node does with packets to the address',
      'fleet check --expect=assertions.txt': 'see on which nodes the config breaks an assertion of this file',
    },
    load: async () => (await import('./fleet/fleet.ts')).fleet,
  }),
  version: command({
    summary: 'print the version',
    own: {},
    examples: { version: 'for a bug report' },
    load: async () => (await import('./version.ts')).version,
  }),
  help: command({
    summary: 'print the help of the agent, or of one command',
    operands: '[COMMAND]',
    own: {},
    examples: {
      help: 'commands, flags, exit codes',
      'help check': 'the same as check --help',
    },
    load: async () => {
      const { help } = await import('./help.ts');
      return (args) => help(args, COMMANDS);
    },
  }),
};
