import assert from 'node:assert/strict';
import { it } from 'node:test';
import { explainedText } from '../../../cmd/ip-masq-agent/explain/explain-text.ts';
import { FAMILIES } from '../../../lib/cidr/address.ts';
import { KEYS } from '../../../lib/config/keys.ts';
import type { KernelVerdict } from '../../../lib/dataplane/dataplane.ts';
import { onePerVerdict } from '../../../lib/explain/ask-node.ts';
import { contenders, explained, type LiveVerdict } from '../../../lib/explain/explain.ts';
import type { Suspect } from '../../../lib/foreign/suspects.ts';
import { painter } from '../../../lib/text/colour.ts';
import { addressFrom } from '../cidr/support.ts';
import { mergedOf } from '../config/support.ts';

/** One of each kind of range for which a key may say something else. */
const KINDS = '8.8.8.8 10.0.0.1 169.254.1.1 224.0.0.1 2001:db8::1 fd00::1 fe80::1 ff02::1'.split(' ');

for (const { name } of KEYS.filter(({ kind }) => kind === 'flag'))
  it(`explain names ${name} where it changes a verdict`, () => {
    const answersIf = (value: boolean) =>
      KINDS.map((address) => explainOf({ 'ip-masq-a': `${name}: ${value}` }, address));
    const before = answersIf(false).map(({ decision }) => decision?.verdict);
    const changed = answersIf(true).filter(({ decision }, index) => decision?.verdict !== before[index]);
    assert.ok(changed.length > 0);
    for (const one of changed)
      assert.match(explainedText(one, painter(false)), new RegExp(`${name} of ip-masq-a:1:\\d+ is true`));
  });

it('no chain is said to come first of which the kernel does not tell the order', () => {
  const positions = ['before', 'unknown', 'after'] as const;
  const live: Partial<LiveVerdict> = { suspects: positions.map((position) => ({ position }) as Suspect) };
  const first = contenders(live as LiveVerdict, 'masqueraded');
  assert.deepEqual(
    first.map(({ position }) => position),
    ['before'],
  );
});

it('of the endpoints of a Service, the first with a verdict is told, and the first with which the kernel disagrees', () => {
  const found = [true, true, false].map((agrees) => {
    const live: Partial<LiveVerdict> = {
      kernel: { verdict: 'masqueraded' } as KernelVerdict,
      agrees,
      elsewhere: [],
    };
    return { ...explainOf({}, '8.8.8.8'), live: live as LiveVerdict };
  });
  assert.deepEqual(onePerVerdict(found), [found[0], found[2]]);
});

function explainOf(texts: Readonly<Record<string, string>>, address: string) {
  const request = { config: mergedOf(texts), from: undefined, families: FAMILIES };
  return explained(request, addressFrom(address));
}
