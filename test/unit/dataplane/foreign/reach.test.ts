import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { conditionText } from '../../../../lib/dataplane/foreign/condition.ts';
import { reach } from '../../../../lib/dataplane/foreign/reach.ts';
import { baseChainOf, textOf } from './support.ts';

/** Lines of iptables, and who gets to which rule: destinations, conditions and the path. */
const CASES: readonly {
  readonly name: string;
  readonly lines: readonly string[];
  readonly reached: readonly string[];
}[] = [
  {
    name: 'a rule without conditions takes its destinations away from those that follow',
    lines: [
      '-A POSTROUTING -d 0.0.0.0/1 -j ACCEPT',
      '-A POSTROUTING -d 128.0.0.0/2 -j RETURN',
      '-A POSTROUTING -j MASQUERADE',
    ],
    reached: ['0.0.0.0/1 [] 1', '192.0.0.0/2 [] 3'],
  },
  {
    name: 'a rule with conditions leaves everything to those that follow',
    lines: ['-A POSTROUTING -s 10.0.0.0/8 -j ACCEPT', '-A POSTROUTING -j MASQUERADE'],
    reached: ['all [source 10.0.0.0/8] 1', 'all [] 2'],
  },
  {
    name: 'what a chain returns goes on behind the jump, what it goes to does not come back',
    lines: [
      '-A POSTROUTING -j A',
      '-A POSTROUTING -j MASQUERADE',
      '-A A -d 0.0.0.0/2 -j RETURN',
      '-A A -d 64.0.0.0/2 -g B',
      '-A A -d 128.0.0.0/2 -j MASQUERADE',
      '-A A -j ACCEPT',
      '-A B -d 64.0.0.0/3 -j ACCEPT',
    ],
    reached: ['64.0.0.0/3 [] 1>4>7', '128.0.0.0/2 [] 1>5', '192.0.0.0/2 [] 1>6', '0.0.0.0/2 96.0.0.0/3 [] 2'],
  },
  {
    name: 'goto in the base chain ends it',
    lines: ['-A POSTROUTING -d 0.0.0.0/1 -g A', '-A POSTROUTING -j MASQUERADE', '-A A -j LOG'],
    reached: ['128.0.0.0/1 [] 2'],
  },
  {
    name: 'the conditions of a jump hold behind it',
    lines: ['-A POSTROUTING -o eth0 -j A', '-A A -s 10.0.0.0/8 -o eth0 -j MASQUERADE'],
    reached: ['all [output interface eth0, source 10.0.0.0/8] 1>2'],
  },
  {
    name: 'a chain that cannot be read passes everything on',
    lines: ['-A POSTROUTING -j GONE', '-A POSTROUTING -j MASQUERADE'],
    reached: ['all [] 2'],
  },
  {
    name: 'where the unmarked return, what follows is about the marked',
    lines: [
      '-A POSTROUTING -j K',
      '-A POSTROUTING -j MASQUERADE',
      '-A K -m mark ! --mark 0x4000/0x4000 -j RETURN',
      '-A K -j MARK --set-xmark 0x4000/0x0',
      '-A K -j MASQUERADE',
    ],
    reached: ['all [mark 0x4000/0x4000] 1>5', 'all [mark not 0x4000/0x4000] 2'],
  },
  {
    name: 'where marked and unmarked come together again, the mark does not matter',
    lines: [
      '-A POSTROUTING -j K',
      '-A POSTROUTING -j MASQUERADE',
      '-A K -m mark --mark 0x4000/0x4000 -j RETURN',
    ],
    reached: ['all [] 2'],
  },
  {
    name: 'rules that contradict each other about a mark are not reached',
    lines: [
      '-A POSTROUTING -m mark --mark 0x1/0x1 -j A',
      '-A A -m mark ! --mark 0x1/0x1 -j MASQUERADE',
      '-A A -j MARK --set-xmark 0x0/0x1',
      '-A A -m mark ! --mark 0x1/0x1 -j ACCEPT',
    ],
    reached: ['all [mark 0x1/0x1, mark not 0x1/0x1] 1>4'],
  },
  {
    name: 'the jump to our own chain passes everything on',
    lines: ['-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT', '-A POSTROUTING -j MASQUERADE'],
    reached: ['all [] 1', 'all [] 2'],
  },
  {
    name: 'chains that lead in a circle are walked once',
    lines: ['-A POSTROUTING -j A', '-A A -j B', '-A B -j A', '-A B -j MASQUERADE'],
    reached: ['all [] 1>2>4'],
  },
];

describe('reach', () => {
  for (const { name, lines, reached } of CASES) {
    it(name, () => {
      const found = reach(baseChainOf(lines)).map(({ destinations, conditions, path }) => {
        const numbers = path.map(({ text }) => lines.indexOf(text) + 1).join('>');
        return `${textOf(destinations)} [${conditions.map(conditionText).join(', ')}] ${numbers}`;
      });
      assert.deepEqual(found, reached);
    });
  }

  it('takes no time to speak of for thousands of CIDRs that an agent leaves alone', () => {
    const lines = Array.from({ length: 10_000 }, (_, i) => `-A A -d 10.${i >> 8}.${i & 255}.0/24 -j RETURN`);
    const base = baseChainOf(['-A POSTROUTING -j A', ...lines, '-A A -j MASQUERADE']);
    const start = performance.now();
    assert.equal(reach(base).length, 1);
    assert.ok(performance.now() - start < 2_000);
  });

  it('takes no time to speak of for a chain per pod, or many ways through', () => {
    const lines = Array.from({ length: 200 }, (_, i) => [
      `-A POSTROUTING -s 10.0.0.${i} -j C${i}`,
      `-A C${i} -d 10.0.0.0/24 -j ACCEPT`,
      `-A C${i} -m mark --mark ${i}/0xff -j RETURN`,
      `-A C${i} ! -d 224.0.0.0/4 -j MASQUERADE`,
    ]).flat();
    const start = performance.now();
    assert.equal(reach(baseChainOf(lines)).length, 400);
    assert.ok(performance.now() - start < 2_000);
  });
});
