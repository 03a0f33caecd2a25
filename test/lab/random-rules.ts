import fc from 'fast-check';
import type { Family } from '../../lib/cidr/address.ts';

/** Rules of a chain X, as iptables-restore reads them, each of some of the matches, in any order. */
export function randomRules(family: Family): fc.Arbitrary<readonly string[]> {
  return fc.array(rule(family), { minLength: 20, maxLength: 20 });
}

function rule(family: Family): fc.Arbitrary<string> {
  return fc
    .constantFrom('tcp', 'udp', 'icmp', '')
    .chain((protocol) =>
      fc
        .tuple(
          fc.shuffledSubarray([...head(family)]),
          protocol === '' ? fc.constant('') : not(`-p ${protocol}`, protocol === 'icmp'),
          fc.shuffledSubarray([...matches(family), ...matchesOf(protocol)], { maxLength: 4 }),
          target(family, protocol),
        )
        .chain(([options, ofProtocol, some, target]) =>
          fc
            .tuple(...[...options, ...some].map((one) => one))
            .map((words) => ['-A X', ofProtocol, ...words, target].filter(Boolean).join(' ')),
        ),
    );
}

/** The words, perhaps with `!` before them. */
function not(words: string, isAllowed = true): fc.Arbitrary<string> {
  return isAllowed ? fc.boolean().map((isNot) => `${isNot ? '! ' : ''}${words}`) : fc.constant(words);
}

function inverted(option: string, value: fc.Arbitrary<unknown>, extension = ''): fc.Arbitrary<string> {
  return fc
    .tuple(fc.boolean(), value)
    .map(([isNot, text]) => `${extension}${isNot ? ' !' : ''} ${option} ${text}`);
}

const number = (max: number) => fc.oneof(fc.nat(max), fc.constantFrom(0, 1, max));
// `! 0:65535` matches nothing, and iptables 1.8.7 does not print it.
const ports = fc
  .tuple(number(0xffff), number(0xffff))
  .map(([a, b]) => (a === b ? `${a}` : `${Math.min(a, b)}:${Math.max(a, b)}`))
  .filter((text) => text !== '0:65535');
const mark = fc.tuple(number(0xffffffff), number(0xffffffff)).map(([value, mask]) => `${value}/${mask}`);

function address(family: Family): fc.Arbitrary<string> {
  const groups = family === 'IPv4' ? 4 : 8;
  const group = fc.oneof(fc.constant(0), fc.nat(family === 'IPv4' ? 255 : 0xffff));
  return fc
    .array(group, { minLength: groups, maxLength: groups })
    .map((parts) => (family === 'IPv4' ? parts.join('.') : parts.map((part) => part.toString(16)).join(':')));
}

function head(family: Family): readonly fc.Arbitrary<string>[] {
  const length = fc.integer({ min: 1, max: family === 'IPv4' ? 32 : 128 });
  const prefix = fc.tuple(address(family), length).map((parts) => parts.join('/'));
  const link = fc.constantFrom('eth0', 'eth+', 'a12345678901234', 'cilium_+');
  return [inverted('-s', prefix), inverted('-d', prefix), inverted('-i', link), inverted('-o', link)];
}

function matches(family: Family): readonly fc.Arbitrary<string>[] {
  const types = fc.subarray(['LOCAL', 'UNICAST', 'MULTICAST'], { minLength: 1 }).map((some) => some.join());
  const states = fc.subarray(['NEW', 'INVALID', 'ESTABLISHED', 'UNTRACKED'], { minLength: 1 });
  const text = fc.string({ unit: fc.constantFrom(...'aZ0_-. "\'\\:→'), minLength: 1, maxLength: 40 });
  const comment = text.map((one) => `-m comment --comment "${one.replace(/["\\]/g, '\\$&')}"`);
  const sides = fc.array(fc.constantFrom('src', 'dst'), { minLength: 1, maxLength: 3 });
  return [
    inverted('--mark', mark, '-m mark'),
    inverted('--mark', mark, '-m connmark'),
    inverted('--dst-type', types, '-m addrtype'),
    inverted('--src-type', types, '-m addrtype'),
    inverted('--ctstate', states, '-m conntrack'),
    inverted('--state', states, '-m state'),
    inverted('--uid-owner', fc.nat(0xffff), '-m owner'),
    inverted(
      '--probability',
      fc.nat(10_000).map((one) => one / 10_000),
      '-m statistic --mode random',
    ),
    inverted(
      '--match-set',
      sides.map((some) => `S-${family} ${some.join()}`),
      '-m set',
    ),
    comment,
    comment,
  ];
}

function matchesOf(protocol: string): readonly fc.Arbitrary<string>[] {
  if (protocol !== 'tcp' && protocol !== 'udp') return [];
  const load = `-m ${protocol}`;
  const list = fc.array(ports, { minLength: 1, maxLength: 5 }).map((some) => some.join());
  return [
    inverted('--sport', ports, load),
    inverted('--dport', ports, load),
    inverted('--dports', list, '-m multiport'),
  ];
}

function target(family: Family, protocol: string): fc.Arbitrary<string> {
  const hasPorts = protocol === 'tcp' || protocol === 'udp';
  const random = fc.subarray(['--random', '--random-fully']).map((some) => some.join(' '));
  const to = fc.tuple(address(family), fc.boolean()).map(([one, isWithPort]) => {
    const shown = family === 'IPv6' && isWithPort && hasPorts ? `[${one}]` : one;
    return isWithPort && hasPorts ? `${shown}:1024-2000` : shown;
  });
  return fc.oneof(
    fc.constantFrom('', '-j RETURN', '-j ACCEPT', '-g Y', '-j Y'),
    random.map((words) => `-j MASQUERADE ${hasPorts ? '--to-ports 5-9 ' : ''}${words}`),
    fc.tuple(to, random).map(([one, words]) => `-j SNAT --to-source ${one} ${words}`),
    mark.map((one) => `-j MARK --set-xmark ${one}`),
  );
}
