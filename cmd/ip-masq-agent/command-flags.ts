import {
  anyText,
  boolean,
  choice,
  count,
  givenPath,
  interval,
  optionalAddress,
  optionalPath,
  paths,
} from './flag-kinds.ts';
import { flag } from './flag-table.ts';

const FORMATS = { text: 'for people', json: 'for programs' } as const;

export const CHECK_FORMATS = {
  ...FORMATS,
  github: 'for annotations of a workflow',
} as const;

const RENDER_FORMATS = {
  iptables: 'input of iptables-restore',
  nftables: 'input of nft -f',
  config: 'one merged config file',
  'win-bridge': 'the CNI config of a Windows node',
} as const;

export const OUTPUT_FLAGS = {
  output: flag(choice(...namesOf(FORMATS)), 'text', meanings(FORMATS, ' ', ', '), 'o'),
} as const;

function namesOf<Name extends string>(formats: Readonly<Record<Name, string>>): readonly Name[] {
  return Object.keys(formats) as Name[];
}

function meanings(formats: Readonly<Record<string, string>>, is: string, and: string): string {
  return Object.entries(formats)
    .map(([name, meaning]) => name + is + meaning)
    .join(and);
}

export const INPUT_FLAGS = {
  filename: flag(
    paths,
    '',
    'a file, a directory or - to read as check does, instead of --config-dir. The flag may be given several times',
    'f',
  ),
  recursive: flag(boolean, 'false', 'read directories in directories too', 'R'),
} as const;

export const CHECK_FLAGS = {
  ...INPUT_FLAGS,
  expect: flag(
    givenPath,
    '',
    'file of assertions. Each line is --must-masquerade=CIDRS or --must-not-masquerade=CIDRS, and text after # is a comment. If an assertion is broken and nothing else is wrong, the exit code is 4',
  ),
  output: flag(choice(...namesOf(CHECK_FORMATS)), 'text', meanings(CHECK_FORMATS, ' ', ', '), 'o'),
} as const;

export const EXPLAIN_FLAGS = {
  ...INPUT_FLAGS,
  from: flag(
    optionalAddress,
    '',
    'the address that the packets come from. By default it is any address whose packets are masqueraded',
  ),
  live: flag(
    boolean,
    'false',
    'also read the rules and connections in the kernel of this node, and what else does NAT there',
  ),
  ...OUTPUT_FLAGS,
} as const;

export const FLEET_FLAGS = {
  context: flag(anyText('NAME'), '', 'the context of kubectl. By default it is the current one'),
  namespace: flag(anyText('NAME'), 'kube-system', 'the namespace of the agents', 'n'),
  selector: flag(
    anyText('SELECTOR'),
    'app.kubernetes.io/name in (ip-masq-agent,ip-masq-agent-canary)',
    "the labels of the agents' pods",
    'l',
  ),
  'node-selector': flag(
    anyText('SELECTOR'),
    'kubernetes.io/os=linux,type!=virtual-kubelet,eks.amazonaws.com/compute-type!=fargate',
    'the labels of the nodes to ask. By default these are all nodes that the DaemonSet is for',
  ),
  parallel: flag(count, '16', 'how many nodes to ask at a time, each with a process of kubectl'),
  timeout: flag(interval, '20s', 'how long to wait for one answer of kubectl'),
  live: EXPLAIN_FLAGS.live,
  expect: CHECK_FLAGS.expect,
  ...OUTPUT_FLAGS,
} as const;

export const RENDER_FLAGS = {
  ...INPUT_FLAGS,
  format: flag(choice(...namesOf(RENDER_FORMATS)), 'iptables', meanings(RENDER_FORMATS, ': ', '; ')),
  flatten: flag(
    boolean,
    'false',
    'with --format=config: write no masqueradeCIDRs, but the shortest list of nonMasqueradeCIDRs that means the same',
  ),
  'diff-to': flag(
    paths,
    '',
    'a file, a directory or - to read as check does. The command then prints which addresses change their verdict if these config files replace those of --filename or --config-dir. The flag may be given several times. The exit code is 4 if there are any such addresses',
  ),
  live: flag(
    boolean,
    'false',
    'print the rules that the kernel of this node holds, not those of the config, as `nft list table` or `iptables -S` would. This needs no nft',
  ),
  'input-file': flag(optionalPath, '', 'with --format=win-bridge: the CNI config to change'),
} as const;

export const CLEANUP_FLAGS = {
  force: flag(boolean, 'false', 'remove the rules even if an agent runs on this node'),
  'dry-run': flag(boolean, 'false', 'only say what would be removed, even while an agent runs'),
} as const;
