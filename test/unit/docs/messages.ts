import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, symlink, unlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { UsageError } from '../../../cmd/ip-masq-agent/exit.ts';
import { failureLines } from '../../../cmd/ip-masq-agent/failure.ts';
import { parseArgs } from '../../../cmd/ip-masq-agent/parse-args.ts';
import { Agent } from '../../../lib/agent/loop.ts';
import { Sources } from '../../../lib/agent/sources.ts';
import type { ConfigOptions } from '../../../lib/config/config.ts';
import type { Dataplane, Plan } from '../../../lib/dataplane/dataplane.ts';
import { detectMode } from '../../../lib/dataplane/iptables/detect.ts';
import type { Logger } from '../../../lib/log/log.ts';
import { Recorder } from '../../../lib/status/recorder.ts';
import { serve } from '../../../lib/status/server.ts';
import { Status } from '../../../lib/status/status.ts';
import { type Files, temporaryDirectory } from '../../lab/volume.ts';
import { fakeHost } from '../neighbours/support.ts';

export const CONFIG_OPTIONS: ConfigOptions = {
  enableIPv6: false,
  cidrLimit: 64,
  strict: false,
  noMasqAllReservedRanges: false,
};

const INTERVAL_MS = 60_000;

/** What is told of a failure, in one line for each thing. */
export async function failureOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    if (error instanceof UsageError) return `ip-masq-agent: ${error.message}`;
    return failureLines(error).join('\n');
  }
  return assert.fail('nothing has failed');
}

/** What the agent says of words that it cannot take. */
export function usageFailure(...words: readonly string[]): Promise<string> {
  return failureOf(() => parseArgs(words));
}

/** What the agent says where the port of its server is in use. */
export async function listenFailure(port: number): Promise<string> {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const taken = (other.address() as AddressInfo).port;
  const said = await failureOf(() => serve(`127.0.0.1:${taken}`, {}, new AbortController().signal, () => {}));
  other.close();
  return said.replaceAll(String(taken), String(port));
}

/** A dataplane that does as the test says; the rest does nothing. */
export function fakeDataplane(parts: Partial<Dataplane>): Dataplane {
  return {
    name: 'fake',
    reason: 'a test',
    observe: async () => observed(undefined),
    survey: async () => ({ baseChains: [], unread: [], skipped: [] }),
    count: async () => ({ remade: 0, rules: [] }),
    recall: () => undefined,
    size: () => 0,
    apply: async () => {},
    ...parts,
  };
}

/** A kernel for which this is the plan. */
export function observed(plan: Plan | undefined): Awaited<ReturnType<Dataplane['observe']>> {
  const verdict = { state: 'no chain', verdict: 'return', rule: undefined } as const;
  return { plan: () => plan, planRemoval: () => undefined, verdict: () => verdict };
}

/** What the agent logs at so many syncs in a row. */
export async function agentLog(dataplane: Dataplane, syncs = 1): Promise<readonly string[]> {
  await using dir = await temporaryDirectory();
  const log = recordedLog();
  const dataplanes = { open: async () => dataplane, places: async () => [] };
  const options = { ...sourcesOptions(dir.path), syncTimeout: INTERVAL_MS };
  const agent = new Agent(options, dataplanes, log.logger, new Status(new Recorder()));
  const { signal } = new AbortController();
  for (let sync = 0; sync < syncs; sync += 1)
    await agent.sync({ reason: 'resync', since: performance.now() }, signal);
  return log.messages;
}

/** What the agent logs of a directory with these files. */
export async function sourcesLog(files: Files): Promise<readonly string[]> {
  await using dir = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir.path, name), text);
  const log = recordedLog();
  await new Sources(sourcesOptions(dir.path), log.logger).load();
  return log.messages;
}

/** What the agent logs of a directory that cannot be watched, for the reason that is given. */
export async function watchLog(dir: string, reason: string): Promise<readonly string[]> {
  const log = recordedLog();
  const stop = new AbortController();
  const react = async () => stop.abort();
  await new Sources(sourcesOptions(dir), log.logger).follow(react, stop.signal);
  return log.messages.map((message) => message.replace(/ENOENT: [^']*/, `${reason} `));
}

/** What the agent says of a directory that is missing, or of a volume that has broken since it was read. */
export async function directoryFailure(kind: 'missing' | 'broken'): Promise<string> {
  await using temporary = await temporaryDirectory();
  const dir = join(temporary.path, 'config');
  const sources = new Sources(sourcesOptions(dir), recordedLog().logger);
  if (kind === 'broken') {
    const generation = join(dir, '..data');
    await mkdir(join(dir, 'generation'), { recursive: true });
    await symlink('generation', generation);
    await sources.load();
    await unlink(generation);
  }
  const said = await failureOf(() => sources.load());
  return said.replaceAll(dir, '/etc/config');
}

/** Listings of the built-in chains of `nat`, so many rules in POSTROUTING. */
export function listings(command: string, count: number): Readonly<Record<string, string>> {
  const chain = (name: string, rules: number) => `-P ${name} ACCEPT\n${`-A ${name} -j x\n`.repeat(rules)}`;
  const lengths = { PREROUTING: 0, OUTPUT: 0, POSTROUTING: count };
  return Object.fromEntries(
    Object.entries(lengths).map(([name, rules]) => [
      `${command} --wait 1 -t nat -S ${name}`,
      chain(name, rules),
    ]),
  );
}

/** What the agent logs about the mode, on a node whose tools print this. */
export async function modeLine(outputs: Readonly<Record<string, string>>): Promise<string> {
  const absent = { code: 1, stderr: 'iptables: No chain/target/match by that name.\n' };
  const tools = {
    'iptables-nft --version': { stdout: 'iptables v1.8.9 (nf_tables)\n' },
    'iptables-legacy --version': { stdout: 'iptables v1.8.9 (legacy)\n' },
    'iptables-nft': absent,
    'iptables-legacy': absent,
  };
  const answers = Object.fromEntries(Object.entries(outputs).map(([key, stdout]) => [key, { stdout }]));
  const host = fakeHost({ ...tools, ...answers }, [], { '/proc/net/ip_tables_names': 'nat\n' });
  const { mode, version, reason } = await detectMode(host, 'auto');
  const log = await agentLog(fakeDataplane({ name: `iptables ${version} (${mode})`, reason }));
  return log.find((line) => line.startsWith('using')) ?? '';
}

function sourcesOptions(configDir: string) {
  return { configDir, config: CONFIG_OPTIONS, resyncInterval: INTERVAL_MS };
}

/** A log that keeps the messages, without level and fields. */
function recordedLog(): { readonly logger: Logger; readonly messages: readonly string[] } {
  const messages: string[] = [];
  const keep = (...args: readonly unknown[]) => messages.push(String(args.at(-1)));
  const logger = { error: keep, warn: keep, info: keep, debug: () => {}, trace: () => {} };
  return { logger: logger as unknown as Logger, messages };
}
