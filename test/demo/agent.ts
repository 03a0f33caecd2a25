import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { BINARY } from '../lab/binary.ts';
import type { Box } from '../lab/box.ts';

const PATIENCE_MS = 10_000;

/** A running agent, and what it has logged so far. */
export interface Agent {
  readonly log: readonly string[];
  /** Its exit code, once it has ended; rejects where it does not end in time. */
  readonly ended: () => Promise<number | null>;
}

/** Starts the agent that `make build` made, in the box. */
export function startAgent(box: Box, configDir: string, scratch: string): Agent {
  const child = box.spawn(
    BINARY,
    [
      `--config-dir=${configDir}`,
      '--iptables-mode=nft',
      '--log-format=text',
      `--termination-log=${scratch}/termination-log`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const log: string[] = [];
  if (child.stderr !== null) createInterface(child.stderr).on('line', (line) => log.push(line));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code));
  });
  // Whether it ends, and how, matters only to those who ask.
  ended.catch(() => {});
  const late = async () => {
    await delay(PATIENCE_MS);
    throw new Error('the agent does not end');
  };
  return { log, ended: () => Promise.race([ended, late()]) };
}

/** The rules of a chain in `nat` as the kernel holds them; none where the chain is missing. */
export async function rules(box: Box, chain: string): Promise<readonly string[]> {
  const { stdout } = await box.run('iptables-nft', ['-t', 'nat', '-S', chain]);
  return stdout.split('\n').filter((line) => line.startsWith('-A '));
}
