import { type Commands, command } from './command.ts';
import { CHECK_FLAGS, DOCTOR_FLAGS, EXPLAIN_FLAGS, RENDER_FLAGS, VERSION_FLAGS } from './command-flags.ts';
import { FLAGS, type FlagName } from './flags.ts';

const CONFIG_FLAGS = [
  'config-dir',
  'enable-ipv6',
  'nomasq-all-reserved-ranges',
  'cidr-limit',
  'strict',
] as const;
const KERNEL_FLAGS = [
  'backend',
  'masq-chain',
  'iptables-mode',
  'random-fully',
  'to-ports',
  'sync-timeout',
] as const;

/** Every command by name. */
export const COMMANDS: Commands = {
  run: command({
    summary:
      'sync, then follow the config files and the kernel until stopped; what runs where no command is given',
    operands: '',
    own: {},
    uses: Object.keys(FLAGS) as FlagName[],
    examples: [
      {
        line: '--enable-ipv6',
        meaning: 'in a DaemonSet with host network: read /etc/config/ip-masq-*, keep IPv4 and IPv6 rules',
      },
      {
        line: '--once --config-dir=./config --log-format=text --v=3',
        meaning: 'sync once from another directory and say what was done',
      },
      {
        line: '--iptables-mode=nft --to-ports=1024-29999,32768-65535',
        meaning: 'do not guess the mode; keep masqueraded connections off the node ports',
      },
    ],
    load: async () => (await import('./run/run.ts')).run,
  }),
  check: command({
    summary: 'validate and merge config without a kernel and without root',
    details:
      'A PATH is a config directory, a config file, a YAML or JSON file of manifests with ConfigMaps, or - for standard input; without any it is --config-dir. All PATHs together are merged as if they were mounted on one node. Of a ConfigMap every key that begins with ip-masq- is a source. Exit code 3 where there is an error.',
    operands: '[PATH…]',
    own: CHECK_FLAGS,
    uses: CONFIG_FLAGS,
    examples: [
      {
        line: 'check examples/config-cloud.yaml examples/config-operator.yaml',
        meaning: 'before they are applied',
      },
      {
        line: 'check --strict --output=github manifests/ip-masq.yaml',
        meaning: 'in a pipeline: annotations at the lines of a pull request',
      },
      { line: 'check --enable-ipv6 -', meaning: 'what `kubectl get configmap -o yaml` prints' },
    ],
    load: async () => (await import('./check.ts')).check,
  }),
  explain: command({
    summary: 'say whether traffic to an address is masqueraded, and which entry decides',
    operands: 'ADDRESS…',
    own: EXPLAIN_FLAGS,
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: [
      { line: 'explain 10.1.2.3', meaning: 'what the config says' },
      {
        line: 'explain --live 10.1.2.3 169.254.169.254',
        meaning: 'on a node: whether the kernel agrees, and whether a rule of others interferes',
      },
    ],
    load: async () => (await import('./explain/explain.ts')).explain,
  }),
  diff: command({
    summary: 'show what a sync would change in the kernel now',
    details: 'Changes nothing. Exit code 0 where nothing would change, 4 where something would.',
    operands: '',
    own: {},
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: [
      { line: 'diff', meaning: 'on a node, with the flags of its agent' },
      { line: 'diff --config-dir=./next --enable-ipv6', meaning: 'what another config would change' },
    ],
    load: async () => (await import('./diff/diff.ts')).diff,
  }),
  render: command({
    summary: 'print the rules, or the merged config for other programs',
    details:
      'Without any source the output file of --format=config is removed, because defaults differ from an empty file. With --watch a bad config ends it with exit code 3; the last good output stays.',
    operands: '',
    own: RENDER_FLAGS,
    uses: [
      ...CONFIG_FLAGS,
      'masq-chain',
      'random-fully',
      'to-ports',
      'resync-interval',
      'log-format',
      'v',
      'termination-log',
    ],
    examples: [
      { line: 'render', meaning: 'the transaction that makes the chain on a node without one' },
      {
        line: 'render --format=config --flatten --output-file=/out/ip-masq-agent --watch',
        meaning: 'as a sidecar of a program that reads one file and knows no exceptions',
      },
      {
        line: 'render --format=win-bridge --input-file=cni.conf --output-file=cni.conf',
        meaning: 'update the ExceptionList of a Windows node',
      },
    ],
    load: async () => (await import('./render/render.ts')).render,
  }),
  doctor: command({
    summary: 'look at the node for what breaks masquerading: rules of others, tools, rights, settings',
    details: 'Changes nothing. Exit code 0 where nothing is found, 4 where something is.',
    operands: '',
    own: DOCTOR_FLAGS,
    uses: [...CONFIG_FLAGS, ...KERNEL_FLAGS],
    examples: [
      { line: 'doctor', meaning: 'on a node, with the flags of its agent' },
      {
        line: 'doctor --enable-ipv6 --output=json',
        meaning: 'for a program that collects the findings of all nodes',
      },
    ],
    load: async () => (await import('./doctor/doctor.ts')).doctor,
  }),
  cleanup: command({
    summary: 'remove all rules of ours, of both families, in both iptables modes and in nftables',
    details: 'Succeeds where there is nothing to remove. Stop the agent first, or it makes them again.',
    operands: '',
    own: {},
    uses: ['masq-chain', 'sync-timeout'],
    examples: [
      { line: 'cleanup', meaning: 'after the DaemonSet is gone' },
      { line: 'cleanup --masq-chain=OLD-NAME', meaning: 'of an agent that used another chain' },
    ],
    load: async () => (await import('./cleanup.ts')).cleanup,
  }),
  version: command({
    summary: 'print the version, and those of the tools that are installed',
    operands: '',
    own: VERSION_FLAGS,
    uses: [],
    examples: [
      { line: 'version', meaning: 'for a bug report' },
      { line: 'version --output=json', meaning: 'for programs' },
    ],
    load: async () => (await import('./version.ts')).version,
  }),
  completion: command({
    summary: 'print the completion script of a shell, bash or zsh',
    operands: 'SHELL',
    own: {},
    uses: [],
    examples: [
      {
        line: 'completion bash > /etc/bash_completion.d/ip-masq-agent',
        meaning: 'for every user; or `source <(ip-masq-agent completion bash)` for this shell',
      },
      { line: 'completion zsh > ~/.zfunc/_ip-masq-agent', meaning: 'in a directory of $fpath' },
    ],
    load: async () => {
      const { completion } = await import('./completion.ts');
      return (args) => completion(args, COMMANDS);
    },
  }),
  help: command({
    summary: 'print the help, of one command where it is named',
    operands: '[COMMAND]',
    own: {},
    uses: [],
    examples: [
      { line: 'help', meaning: 'commands, flags, exit codes' },
      { line: 'help check', meaning: 'the same as check --help' },
    ],
    load: async () => {
      const { help } = await import('./help.ts');
      return (args) => help(args, COMMANDS);
    },
  }),
};
