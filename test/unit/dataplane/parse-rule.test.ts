import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseIptablesRule } from '../../../lib/dataplane/iptables/parse-rule.ts';
import { OWN, textOf } from '../foreign/support.ts';

interface Case {
  readonly spec: string;
  readonly destinations?: string;
  readonly conditions?: readonly string[];
  readonly outcome?: string;
}

const IPV4: readonly Case[] = [
  { spec: '-j MASQUERADE --random-fully', outcome: 'masquerades' },
  { spec: '-j SNAT --to-source 192.0.2.1', outcome: 'masquerades' },
  { spec: '-j NETMAP --to 192.0.2.0/24', outcome: 'masquerades' },
  { spec: '-j ACCEPT', outcome: 'ends' },
  { spec: '-j NFQUEUE --queue-num 1', outcome: 'else' },
  { spec: '-j RETURN', outcome: 'returns' },
  { spec: '-j LOG', outcome: 'goes on' },
  { spec: '-j SOMETHING --with option', outcome: 'goes on' },
  { spec: '-j MARK --set-xmark 0x4000/0x0', outcome: 'goes on' },
  { spec: '-j FLANNEL-POSTRTG', outcome: 'jump FLANNEL-POSTRTG' },
  { spec: '-g ELSEWHERE', outcome: 'goto ELSEWHERE' },
  { spec: '-m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT', outcome: 'own' },
  { spec: '', outcome: 'goes on' },
  { spec: '-d 10.0.0.0/8 -j ACCEPT', destinations: '10.0.0.0/8', outcome: 'ends' },
  { spec: '! -d 128.0.0.0/1 -j RETURN', destinations: '0.0.0.0/1', outcome: 'returns' },
  {
    spec: '-d 10.0.0.0/255.0.255.0 -j ACCEPT',
    conditions: ['destination 10.0.0.0/255.0.255.0'],
    outcome: 'ends',
  },
  { spec: '-m addrtype --dst-type LOCAL -j ACCEPT', destinations: '', outcome: 'ends' },
  {
    spec: '-m addrtype --dst-type LOCAL,BROADCAST -j ACCEPT',
    conditions: ['addrtype dst-type LOCAL,BROADCAST'],
    outcome: 'ends',
  },
  {
    spec: '-s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
    conditions: ['source 172.17.0.0/16', 'output interface not docker0'],
    outcome: 'masquerades',
  },
  {
    spec: '-p tcp -m comment --comment "-d 10.0.0.0/8 ! -j" -m tcp ! --dport 80:90 -j MASQUERADE',
    conditions: ['protocol tcp', 'tcp dport not 80:90'],
    outcome: 'masquerades',
  },
  { spec: '-m mark ! --mark 0x4000/0x4000 -j RETURN', outcome: 'returns' },
  { spec: '-m mark --mark 0x0/0x4000 -j RETURN', outcome: 'returns' },
  { spec: '-m mark --mark 0x2000/0x2000 -j MASQUERADE', destinations: '', outcome: 'masquerades' },
  { spec: '-m mark --mark 0x0/0x10 -j RETURN', conditions: ['mark not 0x10/0x10'], outcome: 'returns' },
  { spec: '-m mark --mark 0x7 -j RETURN', conditions: ['mark 0x7'], outcome: 'returns' },
  { spec: '-m connmark --mark 0x7 -j RETURN', conditions: ['connmark mark 0x7'], outcome: 'returns' },
  {
    spec: '-m set --match-set pods src -m set ! --match-set all dst -j MASQUERADE',
    conditions: ['set match-set pods src', 'set match-set not all dst'],
    outcome: 'masquerades',
  },
  { spec: '-m socket -j ACCEPT', conditions: ['socket'], outcome: 'ends' },
];

describe('a rule of iptables -S', () => {
  for (const { spec, destinations = 'all', conditions = [], outcome } of IPV4) {
    it(`is understood: ${spec || '(no target)'}`, () => {
      const rule = parseIptablesRule('IPv4', 'POSTROUTING', spec, OWN);
      assert.equal(textOf(rule.destinations), destinations);
      const texts = rule.conditions.map(({ text }) => text);
      assert.deepEqual(texts, conditions);
      const { kind } = rule.outcome;
      assert.equal('chain' in rule.outcome ? `${kind} ${rule.outcome.chain}` : kind, outcome);
    });
  }

  for (const [spec, steady] of [
    ['-s 10.0.0.0/8 ! -o eth0 -p tcp', [true, true, true]],
    ['-p tcp -m tcp --dport 80', [true, false]],
    ['-d 10.0.0.0/255.0.255.0', [true]],
    ['-m statistic --mode random --probability 0.5', [false, false]],
    ['-m addrtype --src-type LOCAL --limit-iface-out', [false]],
    ['-m set --match-set pods src', [false]],
    ['-m mark --mark 0x1', [false]],
  ] as const) {
    it(`asks what a packet answers alike each time, or not: ${spec}`, () => {
      const { conditions } = parseIptablesRule('IPv4', 'X', `${spec} -j RETURN`, OWN);
      const found = conditions.map(({ isSteady }) => isSteady);
      assert.deepEqual(found, steady);
    });
  }

  it('that matches the mark in the chain of kube-proxy or portmap is about packets that they have marked', () => {
    for (const chain of ['KUBE-POSTROUTING', 'CNI-HOSTPORT-MASQ']) {
      const rule = parseIptablesRule('IPv4', chain, '-m mark --mark 0x10/0x10 -j MASQUERADE', OWN);
      assert.equal(textOf(rule.destinations), '');
    }
  });

  it('of IPv6 is understood', () => {
    const rule = parseIptablesRule('IPv6', 'X', '-d fd00::/8 ! -p ipv6-icmp -j MASQUERADE', OWN);
    assert.equal(textOf(rule.destinations), 'fd00::/8');
    const texts = rule.conditions.map(({ text }) => text);
    assert.deepEqual(texts, ['protocol not ipv6-icmp']);
    assert.equal(rule.text, '-A X -d fd00::/8 ! -p ipv6-icmp -j MASQUERADE');
  });
});
