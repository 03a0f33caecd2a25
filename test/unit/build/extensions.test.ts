import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

/** Chains, and what iptables itself knows. */
const BUILT_IN = ['ACCEPT', 'DROP', 'RETURN'];
/** What no rule there uses, and why it is in the image: `standard` is behind ACCEPT, NAT behind DNAT and others; users write the rest. */
const MORE = ['standard', 'NAT', 'SET', 'pkttype', 'socket', 'ip6t_NETMAP'];

it('the image has the extensions of iptables that rules of programs on nodes use in nat and raw, and no others', () => {
  const listed = read('build/image/extensions.txt')
    .split('\n')
    .filter((line) => /^\w/.test(line));
  const known = new Set(listed.map((file) => file.replace(/^\w+?_/, '')));
  const groups = read('test/lab/iptables-corpus.txt').split(/^(?=\*)/m);
  const rules = groups.filter((group) => /^\*(?:nat|raw)\b/.test(group)).join('');
  const used = [...rules.matchAll(/ -(?:m|p) (\w+)(?= )| -j ([A-Z]+)(?= |$)/gm)].map(
    ([, match, target]) => match ?? target ?? '',
  );
  const chains = new Set([...rules.matchAll(/^-A (\S+)/gm)].map(([, chain]) => chain));
  const needed = [...new Set(used)].filter((name) => !BUILT_IN.includes(name) && !chains.has(name));
  assert.deepEqual(
    needed.filter((name) => !known.has(name)),
    [],
  );
  assert.deepEqual(
    [...known].filter((name) => !needed.includes(name) && !MORE.some((one) => one.endsWith(name))),
    [],
  );
});
