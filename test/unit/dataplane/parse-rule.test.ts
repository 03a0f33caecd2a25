import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseIptablesRule } from '../../../lib/dataplane/iptables/parse-rule.ts';
import { meaningOf, OWN } from './support.ts';

/** Destinations, `all` for everything | conditions | outcome, of each rule. */
const IPV4: Readonly<Record<string, string>> = {
  '-j MASQUERADE --random-fully': 'all | | masquerades',
  '-j SNAT --to-source 192.0.2.1': 'all | | masquerades',
  '-j NETMAP --to 192.0.2.0/24': 'all | | masquerades',
  '-j ACCEPT': 'all | | ends',
  '-j NFQUEUE --queue-num 1': 'all | | else',
  '-j RETURN': 'all | | returns',
  '-j LOG': 'all | | goes on',
  '-j SOMETHING --with option': 'all | | goes on',
  '-j MARK --set-xmark 0x4000/0x0': 'all | | goes on',
  '-j FLANNEL-POSTRTG': 'all | | jump FLANNEL-POSTRTG',
  '-g ELSEWHERE': 'all | | goto ELSEWHERE',
  '-m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT': 'all | | own',
  '': 'all | | goes on',
  '-d 10.0.0.0/8 -j ACCEPT': '10.0.0.0/8 | | ends',
  '! -d 128.0.0.0/1 -j RETURN': '0.0.0.0/1 | | returns',
  '-d 10.0.0.0/255.0.255.0 -j ACCEPT': 'all | destination 10.0.0.0/255.0.255.0 | ends',
  '-m addrtype --dst-type LOCAL -j ACCEPT': ' | | ends',
  '-m addrtype --dst-type LOCAL,BROADCAST -j ACCEPT': 'all | addrtype dst-type LOCAL,BROADCAST | ends',
  '-s 172.17.0.0/16 ! -o docker0 -j MASQUERADE':
    'all | source 172.17.0.0/16, output interface not docker0 | masquerades',
  '-p tcp -m comment --comment "-d 10.0.0.0/8 ! -j" -m tcp ! --dport 80:90 -j MASQUERADE':
    'all | protocol tcp, tcp dport not 80:90 | masquerades',
  '-m mark ! --mark 0x4000/0x4000 -j RETURN': 'all | mark mark not 0x4000/0x4000 | returns',
  '-m connmark --mark 0x7 -j RETURN': 'all | connmark mark 0x7 | returns',
  '-m set --match-set pods src -m set ! --match-set all dst -j MASQUERADE':
    'all | set match-set pods src, set match-set not all dst | masquerades',
  '-m socket -j ACCEPT': 'all | socket | ends',
  // What netlink shows and iptables has no words for.
  '-d 10.0.0.0/8 -i eth0 [match recent] -j RETURN':
    '10.0.0.0/8 | input interface eth0, [match recent] | returns',
  '-o eth0 -m comment --comment "[x]" [ip daddr @blocked] -j ACCEPT':
    'all | output interface eth0, [ip daddr @blocked] | ends',
};

describe('a rule of iptables -S', () => {
  for (const [spec, meaning] of Object.entries(IPV4))
    it(`is understood: ${spec || '(no target)'}`, () =>
      assert.equal(meaningOf(parseIptablesRule('IPv4', 'POSTROUTING', spec, OWN)), meaning));

  it('of IPv6 is understood', () => {
    const rule = parseIptablesRule('IPv6', 'X', '-d fd00::/8 ! -p ipv6-icmp -j MASQUERADE', OWN);
    assert.equal(meaningOf(rule), 'fd00::/8 | protocol not ipv6-icmp | masquerades');
    assert.equal(rule.text, '-A X -d fd00::/8 ! -p ipv6-icmp -j MASQUERADE');
  });
});
