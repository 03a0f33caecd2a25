import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { mergeSources } from '../../../lib/config/load.ts';
import { RUNS } from '../../lab/runs.ts';
import { anyPattern, type Pattern } from './patterns.ts';
import { OPTIONS } from './support.ts';

/** As if there were no limits: they would hide what takes too long. */
const UNLIMITED = { ...OPTIONS, cidrLimit: 1e6, cidrLimitMax: 1e6 };

/** Characters of a stretch, and how many times as many are compared with them. */
const [LENGTH, TIMES] = [2 ** 11, 8];

/** Below that, what a machine does beside decides. */
const LEAST_MS = 1;

/** Far from what grows with the length, 8 times, and from what grows with its square, 64 times. */
const MOST = 24;

/** How often it must take longer. */
const ATTEMPTS = 6;

describe('what a text takes grows with its length', () => {
  for (const pattern of [
    known('blank lines, then empty keys', (length) => `?${'\n'.repeat(length)}${'?\n'.repeat(length)}`),
    known('comments that end with a carriage return', (length) => '#\r-\n'.repeat(length / 4)),
    known('one line with many mistakes', (length) => `nonMasqueradeCIDRs: [${'a,'.repeat(length)}]`),
    known('many lines with mistakes', (length) => `nonMasqueradeCIDRs:\n${'- a\n'.repeat(length)}`),
    known('a list of duplicates', (length) => `nonMasqueradeCIDRs:\n${'- 10.0.0.0/8\n'.repeat(length / 8)}`),
    known('nested networks', (length) => `nonMasqueradeCIDRs:\n${networks(length / 8)}`),
    known(
      'nested destinations with addresses',
      (length) => `masqueradeAddresses:\n${destinations(length / 16)}`,
    ),
    known('an item with many keys', (length) => `masqueradeAddresses: [{${'a: 1,'.repeat(length / 4)}}]`),
  ]) {
    it(`if it is ${pattern.name}`, () => assertLinear(pattern));
  }

  it('if it is any pattern', () => {
    for (const pattern of fc.sample(anyPattern(), {
      seed: 14,
      numRuns: 400 * RUNS,
    }))
      assertLinear(pattern);
  });
});

function known(name: string, repeat: Pattern['repeat']): Pattern {
  return { name, repeat };
}

function networks(count: number): string {
  return Array.from(
    { length: count },
    (_, index) => `- 10.${index >> 8}.${index & 255}.0/24\n- 10.${index >> 8}.0.0/16\n`,
  ).join('');
}

function destinations(count: number): string {
  return networks(count).replace(/- (\S+)/g, '- {destination: $1, address: 10.0.0.0/8}');
}

function assertLinear({ name, repeat }: Pattern): void {
  const [text, long] = [repeat(LENGTH), repeat(TIMES * LENGTH)];
  let [once, most] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    once = Math.min(once, cpuMs(text));
    most = Math.min(most, cpuMs(long));
    if (most <= MOST * Math.max(once, LEAST_MS)) return;
  }
  assert.fail(`${name}: ${once} ms for ${text.length} characters, ${most} ms for ${long.length}`);
}

/** Milliseconds of this thread on a CPU to read two sources of that text: others do not count, nor does waiting. */
function cpuMs(text: string): number {
  const before = process.threadCpuUsage();
  mergeSources(
    ['a', 'b'].map((name) => ({ name, text })),
    UNLIMITED,
  );
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
