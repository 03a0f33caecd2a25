import assert from 'node:assert/strict';
import { it } from 'node:test';
import { iptablesDataplane } from '../../../lib/dataplane/iptables/iptables.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { mergedOf } from '../config/support.ts';
import { hostWith } from './support.ts';

const config = mergedOf({
  'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0/8, 172.16.0.0/12]\nmasqueradeCIDRs: [10.1.0.0/16]\n',
});
const comment = (text: string) => `-m comment --comment "ip-masq-agent: ${text}"`;
const inside = comment('not masqueraded (from ip-masq-x)');

/** What is counted if iptables prints these rules. */
async function counted(...rules: readonly string[]): Promise<readonly string[]> {
  const stdout = ['-N X', ...rules.map((rule) => `-A X ${rule}`), ''].join('\n');
  const missing = { code: 1, stderr: 'iptables: No chain/target/match by that name.' };
  const second = 'iptables-nft --wait 1 -t nat -v -S X-FROM';
  const host = hostWith({ 'iptables-nft': { stdout }, [second]: missing });
  const detected = { mode: 'nft', suffix: '-nft', version: '1.8.9', reason: 'test' } as const;
  const options = { chain: 'X', randomFully: false, toPorts: [] };
  const policy = compilePolicy(config, 'IPv4');
  const counts = await iptablesDataplane(detected, options, host).count(policy);
  return counts.map(
    ({ entry, countedAs, packets }) => `${entry?.prefix.text ?? 'else'} ${countedAs} ${packets}`,
  );
}

it('the rules of the policy are counted, however iptables prints them, and none from where they differ', async () => {
  const node = `${comment('the node itself, from an address of the link')} -m addrtype --src-type LOCAL --limit-iface-out`;
  const rules = [
    `-d 169.254.0.0/16 ${comment('not masqueraded (default, RFC 3927)')} -c 3 3 -j RETURN`,
    `${node} -c 1 1 -j RETURN`,
    `-d 10.1.0.0/16 ${comment('masqueraded (from ip-masq-x)')} -c 2 20 -j MASQUERADE`,
    `-d 172.16.0.0/12 ${inside} -c 4 40 -j RETURN`,
    `-d 10.0.0.0/8  ${inside} -c 5 50 -j RETURN`,
    `${comment('everything else is masqueraded (must be last in chain)')} -c 18446744073709551615 7 -j MASQUERADE`,
  ];
  const counts = [
    '169.254.0.0/16 not_masqueraded 3',
    '10.1.0.0/16 masqueraded 2',
    '172.16.0.0/12 not_masqueraded 4',
    '10.0.0.0/8 not_masqueraded 5',
    'else masqueraded 18446744073709551615',
  ];
  assert.deepEqual(await counted(...rules), counts);
  const theirs = '-s 10.9.0.0/16 -m comment --comment "a\nb" -c 1 1 -j ACCEPT';
  assert.deepEqual(await counted(...rules.slice(0, 2), theirs, ...rules.slice(2)), counts.slice(0, 1));
});
