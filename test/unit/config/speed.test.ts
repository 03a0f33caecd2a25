import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { mergeSources } from '../../../lib/config/load.ts';
import { RUNS } from '../../lab/runs.ts';
import { anyPattern, type Pattern } from './patterns.ts';
import { OPTIONS } from './support.ts';

/** As if there were no limits: they would hide what takes too long. */
const UNLIMITED = { ...OPTIONS, cidrLimit: 1e6, cidrLimitMax: 1e6 };

/** Characters of a stretch: time that grows with their square is a hundred times what it may be. */
const LENGTH = 2 ** 12;

/** Below that, what a machine does beside decides. */
const LEAST_MS = 4;

/** How often twice the text must take more than three times as long. Another program cannot make that so each time. */
const ATTEMPTS = 6;

describe('twice the text takes at most three times as long', () => {
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
  const [text, twice] = [repeat(LENGTH), repeat(2 * LENGTH)];
  let [once, double] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    once = Math.min(once, cpuMs(text));
    double = Math.min(double, cpuMs(twice));
    if (double <= 3 * Math.max(once, LEAST_MS)) return;
  }
  assert.fail(`${name}: ${once} ms for ${text.length} characters, ${double} ms for ${twice.length}`);
}

/** Milliseconds of CPU to read two sources of that text. */
function cpuMs(text: string): number {
  const before = process.cpuUsage();
  mergeSources(
    ['a', 'b'].map((name) => ({ name, text })),
    UNLIMITED,
  );
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
