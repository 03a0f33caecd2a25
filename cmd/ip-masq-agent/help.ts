import { EXIT_MEANING } from './exit.ts';
import { FLAGS } from './flags.ts';

const WIDTH = 100;
const INDENT = 6;

/** What `--help` prints. */
export function helpText(): string {
  return `Keeps a node's masquerade rules exactly as the mounted config files say.

Usage:
  ip-masq-agent [run] [flags]    sync, then follow the config files and the kernel until stopped
  ip-masq-agent version          print the version

Examples:
  ip-masq-agent --enable-ipv6
      in a DaemonSet with host network: read /etc/config/ip-masq-*, keep IPv4 and IPv6 rules
  ip-masq-agent --once --config-dir=./config --log-format=text --v=3
      sync once from another directory and say what was done
  ip-masq-agent --iptables-mode=nft --to-ports=1024-29999,32768-65535
      do not guess the mode; keep masqueraded connections off the node ports

Flags:
${Object.entries(FLAGS).map(flagHelp).join('\n')}
  --version
      print the version
  --help
      print this

Signals:
  SIGTERM, SIGINT    stop; the rules stay, unless --cleanup-on-exit
  SIGHUP             read the config files again now

Exit codes:
${Object.entries(EXIT_MEANING)
  .map(([code, meaning]) => `  ${code}  ${meaning}`)
  .join('\n')}
`;
}

/** The flags as a Markdown table, for the README. */
export function flagTable(): string {
  const rows = Object.entries(FLAGS).map(([name, { kind, default: preset, help }]) => {
    const values = kind.placeholder === '' ? 'true\\|false' : kind.placeholder.replaceAll('|', '\\|');
    return `| \`--${name}\` | ${values} | ${preset === '' ? '' : `\`${preset}\``} | ${help} |`;
  });
  return ['| flag | value | default | meaning |', '| --- | --- | --- | --- |', ...rows].join('\n');
}

/** The exit codes as a Markdown table, for the README. */
export function exitTable(): string {
  const rows = Object.entries(EXIT_MEANING).map(([code, meaning]) => `| ${code} | ${meaning} |`);
  return ['| exit code | meaning |', '| --- | --- |', ...rows].join('\n');
}

function flagHelp([name, { kind, default: preset, help }]: [
  string,
  (typeof FLAGS)[keyof typeof FLAGS],
]): string {
  const value = kind.placeholder === '' ? '' : `=${kind.placeholder}`;
  const suffix =
    preset === '' || (kind.placeholder === '' && preset === 'false') ? '' : ` (default ${preset})`;
  return [`  --${name}${value}`, ...wrap(`${help}${suffix}`)].join('\n');
}

function wrap(text: string): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line === undefined || line.length + word.length >= WIDTH) lines.push(' '.repeat(INDENT) + word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines;
}
