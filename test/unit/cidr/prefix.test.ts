import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import IPCIDR from 'ip-cidr';
import { type ParsedPrefix, parsePrefix } from '../../../lib/cidr/prefix.ts';
import { rangeOf } from '../../../lib/cidr/ranges.ts';
import { anyAddress, BITS, crowdedPrefix, FAMILIES, ipv6Spelling, naiveText, prefixOf } from './arbitrary.ts';

describe('parsePrefix accepts', () => {
  for (const family of FAMILIES) {
    it(`every ${family} network, and reads its canonical text back`, () => {
      fc.assert(
        fc.property(anyNetwork(family), (network) => assert.deepEqual(accepted(network.text), network)),
      );
    });
  }

  it('an IPv6 network however it is spelt: equal prefixes have equal texts', () => {
    const spelt = anyNetwork('IPv6').chain((network) =>
      fc.tuple(fc.constant(network), ipv6Spelling(network.address)),
    );
    fc.assert(
      fc.property(spelt, ([network, text]) => {
        assert.deepEqual(accepted(`${text}/${network.length}`), network);
      }),
      { numRuns: 500 },
    );
  });

  for (const family of FAMILIES) {
    it(`every ${family} network with the address and the ends that ip-cidr finds`, () => {
      const number = { type: 'bigInteger' } as const;
      fc.assert(
        fc.property(crowdedPrefix(family), ({ text }) => {
          const prefix = accepted(text);
          const cidr = new IPCIDR(text);
          assert.equal(prefix.address, cidr.start<bigint>(number));
          assert.equal(rangeOf(prefix).last, cidr.end<bigint>(number));
        }),
      );
    });
  }
});

describe('parsePrefix', () => {
  for (const family of FAMILIES) {
    it(`rejects every ${family} address with host bits, and suggests two texts that it accepts`, () => {
      const withHostBits = fc
        .tuple(anyAddress(family), fc.nat(BITS[family] - 1))
        .filter(([address, length]) => prefixOf(family, address, length).address !== address)
        .filter(([address]) => !isMapped(family, address));
      fc.assert(
        fc.property(withHostBits, ([address, length]) => {
          const { remedy } = rejected(`${naiveText(family, address)}/${length}`);
          const [network, host] = suggestions(remedy);
          assert.deepEqual(network && accepted(network), prefixOf(family, address, length));
          assert.deepEqual(host && accepted(host), prefixOf(family, address, BITS[family]));
        }),
      );
    });
  }

  it('answers for any text, shortly and printably, and suggests only what it accepts', () => {
    const anyText = fc.oneof(almostPrefix(), fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }));
    fc.assert(
      fc.property(anyText, (text) => {
        const parsed = parsePrefix(text);
        if ('prefix' in parsed) return;
        const { message, remedy } = parsed.error;
        assert.match(message, /^[ -~]{5,100}$/);
        assert.match(remedy, /^[ -~]{5,150}$/);
        for (const suggestion of suggestions(remedy)) accepted(suggestion);
      }),
      { numRuns: 2_000 },
    );
  });
});

function accepted(text: string) {
  const parsed: ParsedPrefix = parsePrefix(text);
  assert.ok('prefix' in parsed, `${text} should be a prefix`);
  return parsed.prefix;
}

function rejected(text: string) {
  const parsed: ParsedPrefix = parsePrefix(text);
  assert.ok('error' in parsed, `${text.slice(0, 80)} should be no prefix`);
  return parsed.error;
}

/** What a remedy says that one should write, where it names something. */
function suggestions(remedy: string): readonly string[] {
  const match = /^write (\S+\/\d+)(?: for the whole network, or (\S+) for this one address)?$/.exec(remedy);
  return match?.slice(1).filter((text) => text !== undefined) ?? [];
}

function anyNetwork(family: 'IPv4' | 'IPv6') {
  return fc
    .tuple(anyAddress(family), fc.nat(BITS[family]))
    .map(([address, length]) => prefixOf(family, address, length))
    .filter(({ address }) => !isMapped(family, address));
}

function isMapped(family: 'IPv4' | 'IPv6', address: bigint): boolean {
  return family === 'IPv6' && address / 2n ** 32n === 0xffffn;
}

/** Prefixes with an edit or two, and texts of the characters that prefixes consist of. */
function almostPrefix(): fc.Arbitrary<string> {
  const character = fc.constantFrom(...'0123456789abfFx.:/%+- \n\u00a0\u200b８٨');
  const edited = fc
    .tuple(
      fc.oneof(anyNetwork('IPv4'), anyNetwork('IPv6')),
      fc.array(fc.tuple(fc.nat(50), fc.nat(1), fc.option(character)), { maxLength: 2 }),
    )
    .map(([{ text }, edits]) =>
      edits.reduce((sum, [at, removed, added]) => {
        const index = at % (sum.length + 1);
        return `${sum.slice(0, index)}${added ?? ''}${sum.slice(index + removed)}`;
      }, text),
    );
  return fc.oneof(edited, fc.string({ unit: character, maxLength: 20 }));
}
