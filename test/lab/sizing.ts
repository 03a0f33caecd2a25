import { readFileSync } from 'node:fs';
import { createNode } from '../e2e/support.ts';
import { memoryCgroup } from './cgroups.ts';
import type { Files } from './volume.ts';

/** A row of the sizing table in docs/install.md: what the agent needs for so many CIDRs, and the limit that is promised to suffice. */
export interface Size {
  readonly cidrs: number;
  readonly limitMiB: number;
  readonly flags: readonly string[];
  /** The dataplanes for which it holds. */
  readonly backends: readonly string[];
}

const ROW = /^\| ([\d,]+) \| (\d+)Mi \| (.*) \|$/gm;

/** The rows of the table. */
export function sizes(): readonly Size[] {
  const text = readFileSync(new URL('../../docs/install.md', import.meta.url), 'utf8');
  return Array.from(text.matchAll(ROW), ([, cidrs = '', limit, more = '']) => {
    const flags = more.match(/--[\w-]+=\w+/g) ?? [];
    const chosen = flags.flatMap((flag) => /^--backend=(.*)/.exec(flag)?.[1] ?? []);
    return {
      cidrs: Number(cidrs.replaceAll(',', '')),
      limitMiB: Number(limit),
      flags,
      backends: chosen.length === 0 ? ['iptables', 'nftables'] : chosen,
    };
  });
}

/** What people run in the agent's pod. */
const COMMANDS: readonly (readonly string[])[] = [
  ['check'],
  ['explain', '8.8.8.8'],
  ['explain', '--live', '8.8.8.8', '11.0.0.1'],
  ['diff'],
  ['doctor'],
  ['render'],
  ['ports'],
  ['cleanup', '--dry-run'],
];

/** The most memory that was charged, in bytes, and how many processes the kernel has killed so far. */
export interface Charged {
  readonly what: string;
  readonly peak: number;
  readonly kills: number;
}

/**
 * Runs an agent and each command beside it in a cgroup with the limit of a size: what was charged when it had changed its
 * rules, and after each command.
 *
 * @param configFiles so many CIDRs
 */
export async function* runAtSize(
  { limitMiB, flags, cidrs }: Size,
  backend: string,
  configFiles: (cidrs: number) => Files,
): AsyncGenerator<Charged> {
  await using cgroup = await memoryCgroup(limitMiB * 2 ** 20);
  await using node = await createNode(undefined, cgroup);
  const volume = await node.volume(configFiles(cidrs - 1));
  const agent = node.start(...flags, `--backend=${backend}`);
  const charged = async (what: string) => {
    // Older kernels do not tell the peak.
    return { what, peak: await cgroup.peak().catch(() => 0), kills: await cgroup.kills() };
  };
  await agent.logged(/"reason":"start"/);
  await volume.swap(configFiles(cidrs));
  await agent.logged(/"reason":"change"/);
  yield await charged('start and change');
  for (const args of COMMANDS) {
    await node.agent(...args);
    yield await charged(args.join(' '));
  }
  agent.kill('SIGKILL');
  await agent.ended;
}
