import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { visitDeciding } from '../../../lib/foreign/reach.ts';
import { casesOf } from '../../lab/cases.ts';
import { baseChainOf, textOf, unlimited } from './support.ts';

/** The packets that may reach each MASQUERADE: destinations, conditions, and the path by the numbers of its lines. */
const CASES = casesOf(`
  a rule without conditions takes its destinations from those that follow
    -A POSTROUTING -d 0.0.0.0/1 -j ACCEPT
    -A POSTROUTING -d 128.0.0.0/2 -j RETURN
    -A POSTROUTING -j MASQUERADE
    > 192.0.0.0/2 [] 3
  a rule with conditions takes nothing from a rule without them
    -A POSTROUTING -s 10.0.0.0/8 -j ACCEPT
    -A POSTROUTING -j MASQUERADE
    > all [] 2
  a rule with conditions takes its destinations from those that have the same ones
    -A POSTROUTING -s 10.0.0.0/8 -d 0.0.0.0/1 -j RETURN
    -A POSTROUTING -s 10.0.0.0/8 -o eth0 -d 128.0.0.0/2 -j ACCEPT
    -A POSTROUTING -s 10.0.0.0/8 -o eth0 -j MASQUERADE
    -A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE
    -A POSTROUTING -s 11.0.0.0/8 -j MASQUERADE
    > 192.0.0.0/2 [source 10.0.0.0/8, output interface eth0] 3
    > 128.0.0.0/1 [source 10.0.0.0/8] 4
    > all [source 11.0.0.0/8] 5
  a negated rule without a destination leaves only what it does not take
    -A POSTROUTING ! -o mp0 -j RETURN
    -A POSTROUTING -o eth0 -j MASQUERADE
    -A POSTROUTING ! -s 10.0.0.0/8 -j RETURN
    -A POSTROUTING ! -s 11.0.0.0/8 -d 0.0.0.0/1 -j RETURN
    -A POSTROUTING -o mp+ -j MASQUERADE
    > all [output interface mp0, source 10.0.0.0/8, output interface mp+] 5
  a matter of chance may turn out differently the next time
    -A POSTROUTING -m statistic --mode random --probability 0.5 -d 0.0.0.0/1 -j ACCEPT
    -A POSTROUTING -m statistic --mode random --probability 0.5 -j MASQUERADE
    > all [statistic mode random, statistic probability 0.5] 2
  the conditions and destinations of a jump hold in its chain, and what the chain returns goes on
    -A POSTROUTING -o eth0 -d 0.0.0.0/1 -j A
    -A POSTROUTING -j MASQUERADE
    -A A -d 0.0.0.0/2 -j RETURN
    -A A -s 10.0.0.0/8 -o eth0 -j MASQUERADE
    > all [] 2
    > 64.0.0.0/2 [output interface eth0, source 10.0.0.0/8] 1>4
  what a chain goes to does not come back
    -A POSTROUTING -d 0.0.0.0/1 -g A
    -A POSTROUTING -j MASQUERADE
    -A A -d 0.0.0.0/2 -j MASQUERADE
    > 128.0.0.0/1 [] 2
    > 0.0.0.0/2 [] 1>3
  the packets of several ways to a chain are taken together, with the conditions of all ways and the first path
    -A POSTROUTING -s 10.0.0.0/8 -p tcp -d 0.0.0.0/2 -j A
    -A POSTROUTING -j B
    -A B -o eth0 -p tcp -d 64.0.0.0/2 -j A
    -A A -j MASQUERADE
    > 0.0.0.0/1 [protocol tcp] 1>4
  a chain that cannot be read, and the agent's own, pass everything on
    -A POSTROUTING -j GONE
    -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT
    -A POSTROUTING -j MASQUERADE
    > all [] 3
  chains that lead in a circle are taken once
    -A POSTROUTING -j A
    -A A -j B
    -A B -j A
    -A B -j MASQUERADE
    > all [] 1>2>4
`);

describe('reach', () => {
  for (const { name, given: lines, found } of CASES)
    it(name, async () => {
      const reached: string[] = [];
      await visitDeciding(baseChainOf(lines), unlimited(), ({ effect, destinations, conditions, path }) => {
        if (effect !== 'masquerades') return;
        const numbers = path.map(({ text }) => lines.indexOf(text) + 1).join('>');
        reached.push(`${textOf(destinations)} [${conditions.map(({ text }) => text).join(', ')}] ${numbers}`);
      });
      assert.deepEqual(reached, found);
    });
});
