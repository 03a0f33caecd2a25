import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { RUNS } from '../../lab/runs.ts';
import { useWork } from '../../lab/work.ts';
import { anyPattern, type Pattern } from './patterns.ts';

/** Characters of a stretch, and how many times as many are compared with them. */
const [LENGTH, TIMES] = [2 ** 9, 8];

/** Far from what grows with the length, 8 times, and from what grows with its square, 64 times. */
const MOST = 24;

describe('the work for a text grows with its length', () => {
  const workOf = useWork();

  const readingOf = (text: string) =>
    workOf({ path: 'test/unit/config/workloads.ts', name: 'readTwice', args: [text] });
  const isLinear = async ({ name, repeat }: Pattern) => {
    const [text, long] = [repeat(LENGTH), repeat(TIMES * LENGTH)];
    const [once, more] = [await readingOf(text), await readingOf(long)];
    assert.ok(
      more <= MOST * once,
      `${name}: ${once} for ${text.length} characters, ${more} for ${long.length}`,
    );
  };

  for (const pattern of [
    known('one line with many mistakes', (length) => `nonMasqueradeCIDRs: [${'a,'.repeat(length)}]`),
    known('nested networks', (length) => `nonMasqueradeCIDRs:\n${networks(length / 8)}`),
    known(
      'nested destinations with addresses',
      (length) => `masqueradeAddresses:\n${destinations(length / 16)}`,
    ),
  ]) {
    it(`if it is ${pattern.name}`, () => isLinear(pattern));
  }

  it('if lines of it are shown, whichever they are, of two texts by turns', async () => {
    const text = '-\n'.repeat(2 ** 16);
    const path = 'test/unit/config/workloads.ts';
    const work = await workOf({ path, name: 'showFrames', args: [text, 2_000] });
    assert.ok(work <= 100 * text.length, `${work} for ${text.length} characters`);
  });

  it('if it is any pattern', async () => {
    for (const pattern of fc.sample(anyPattern(), {
      seed: 14,
      numRuns: 100 * RUNS,
    }))
      await isLinear(pattern);
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
