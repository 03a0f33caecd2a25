import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { conditionText } from '../../../lib/neighbours/condition.ts';
import { reach } from '../../../lib/neighbours/reach.ts';
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
    reached: ['0.0.0.0/1 [] 1', '128.0.0.0/2 [] 2', '192.0.0.0/2 [] 3'],
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
    name: 'goto in the base chain ends it, whatever the chain returns',
    lines: [
      '-A POSTROUTING -d 0.0.0.0/1 -g A',
      '-A POSTROUTING -j MASQUERADE',
      '-A A -d 0.0.0.0/2 -j MASQUERADE',
      '-A A -d 64.0.0.0/3 -j RETURN',
    ],
    reached: ['0.0.0.0/2 [] 1>3', '64.0.0.0/2 [] 1', '128.0.0.0/1 [] 2'],
  },
  {
    name: 'what a rule has taken under a condition, none with the same condition gets',
    lines: [
      '-A POSTROUTING -s 10.0.0.0/8 -d 0.0.0.0/1 -j RETURN',
      '-A POSTROUTING -s 10.0.0.0/8 -o eth0 -d 128.0.0.0/2 -j ACCEPT',
      '-A POSTROUTING -s 10.0.0.0/8 -j A',
      '-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE',
      '-A POSTROUTING -s 11.0.0.0/8 -j MASQUERADE',
      '-A POSTROUTING -j MASQUERADE',
      '-A A -o eth0 -j MASQUERADE',
    ],
    reached: [
      '0.0.0.0/1 [source 10.0.0.0/8] 1',
      '128.0.0.0/2 [source 10.0.0.0/8, output interface eth0] 2',
      '192.0.0.0/2 [source 10.0.0.0/8, output interface eth0] 3>7',
      '128.0.0.0/1 [source 10.0.0.0/8] 4',
      'all [source 11.0.0.0/8] 5',
      'all [] 6',
    ],
  },
  {
    name: 'what a chain has returned under a condition goes on behind it',
    lines: [
      '-A POSTROUTING -j A',
      '-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE',
      '-A A -s 10.0.0.0/8 -d 0.0.0.0/1 -j RETURN',
      '-A A -s 10.0.0.0/8 -d 128.0.0.0/2 -j RETURN',
      '-A A -s 10.0.0.0/8 -o eth0 -j MASQUERADE',
    ],
    reached: ['192.0.0.0/2 [source 10.0.0.0/8, output interface eth0] 1>5', 'all [source 10.0.0.0/8] 2'],
  },
  {
    name: 'what was a matter of chance may turn out differently the next time',
    lines: [
      '-A POSTROUTING -m statistic --mode random --probability 0.5 -d 0.0.0.0/1 -j ACCEPT',
      '-A POSTROUTING -m statistic --mode random --probability 0.5 -j MASQUERADE',
    ],
    reached: [
      '0.0.0.0/1 [statistic mode random, statistic probability 0.5] 1',
      'all [statistic mode random, statistic probability 0.5] 2',
    ],
  },
  {
    name: 'what was asked before a mark was changed, was asked of other packets',
    lines: [
      '-A POSTROUTING -s 10.0.0.0/8 -m mark --mark 0x1/0x1 -j ACCEPT',
      '-A POSTROUTING -j MARK --set-xmark 0x1/0x1',
      '-A POSTROUTING -s 10.0.0.0/8 -m mark --mark 0x1/0x1 -j MASQUERADE',
    ],
    reached: ['all [source 10.0.0.0/8, mark 0x1/0x1] 1', 'all [source 10.0.0.0/8, mark 0x1/0x1] 3'],
  },
  {
    name: 'a mark that another chain has changed is another one behind it, too',
    lines: [
      '-A POSTROUTING -s 10.0.0.0/8 -m mark --mark 0x1/0x1 -j ACCEPT',
      '-A POSTROUTING -j A',
      '-A POSTROUTING -s 10.0.0.0/8 -m mark --mark 0x1/0x1 -j MASQUERADE',
      '-A A -j MARK --set-xmark 0x1/0x1',
    ],
    reached: ['all [source 10.0.0.0/8, mark 0x1/0x1] 1', 'all [source 10.0.0.0/8, mark 0x1/0x1] 3'],
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
});
