import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { renderChains } from '../../lib/dataplane/iptables/plan.ts';
import type { IptablesMode, IptablesOptions, RuleOptions } from '../../lib/dataplane/options.ts';
import { CHAIN, createLab, FAMILIES, kindOf, type Lab, MODES, policyOf } from './support.ts';

interface Case {
  readonly what: string;
  readonly texts: Readonly<Record<string, string>>;
  readonly options?: Partial<RuleOptions>;
}

const EXCEPTIONS = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/8, fd00::/8, 0.0.0.0/0]\n',
  'ip-masq-operator':
    'masqueradeCIDRs: [10.20.0.0/16, "fd00:20::/32", 169.254.169.254/32]\nmasqLinkLocalIPv6: true\n',
};

const CASES: readonly Case[] = [
  { what: 'the defaults', texts: {} },
  { what: 'exceptions', texts: EXCEPTIONS },
  { what: 'source ports that are not random', texts: EXCEPTIONS, options: { randomFully: false } },
  { what: 'random source ports of TCP', texts: EXCEPTIONS, options: { randomFully: ['tcp'] } },
  {
    what: 'port ranges',
    texts: EXCEPTIONS,
    options: {
      toPorts: [
        { first: 1024, last: 29_999 },
        { first: 32_768, last: 65_535 },
        { first: 31_000, last: 31_000 },
      ],
    },
  },
  { what: 'another chain', texts: {}, options: { chain: 'OTHER_chain-of-28-characters' } },
  {
    what: 'a config file whose name is no name',
    texts: { 'ip-masq-"\n-j ACCEPT #': 'masqLinkLocal: true\n' },
  },
];

describe('the rendered transaction of both families', () => {
  for (const [index, { what, texts, options = {} }] of CASES.entries()) {
    // The modes differ in the tool alone.
    const mode = MODES[(index >> 1) % MODES.length] ?? 'nft';
    it(`makes with each tool what a sync of its family makes: ${what}, ${mode}`, async () => {
      const policies = FAMILIES.map((family) => policyOf(family, texts));
      const text = renderChains(policies, rulesOptions(mode, options));
      for (const policy of policies) {
        await using synced = await createLab(kindOf(index), mode, policy.family, options);
        await synced.sync(policy);
        await using rendered = await createLab(kindOf(index), mode, policy.family, options);
        await feed(rendered, text);
        assert.equal(await rendered.iptables('-S'), await synced.iptables('-S'));
        assert.equal(await rendered.sync(policy), undefined);
      }
    });
  }

  for (const mode of MODES)
    it(`leaves foreign rules alone, ${mode}`, async () => {
      await using lab = await createLab(kindOf(0), mode, 'IPv4');
      await lab.restore(':OTHER - [0:0]', '-A OTHER -j RETURN', '-A POSTROUTING -j OTHER');
      await feed(
        lab,
        renderChains(
          FAMILIES.map((family) => policyOf(family, {})),
          rulesOptions(mode),
        ),
      );
      const rules = await lab.iptables('-S');
      assert.match(rules, /^-A OTHER -j RETURN$/m);
      assert.match(rules, /^-A POSTROUTING -j OTHER\n-A POSTROUTING .* -j IP-MASQ-AGENT$/m);
    });
});

/** The text as it is, to the tool of the lab's family. */
async function feed({ box, mode, family }: Lab, text: string): Promise<void> {
  const tool = `${family === 'IPv4' ? 'iptables' : 'ip6tables'}-${mode}-restore`;
  const { code, stdout, stderr } = await box.run(tool, ['--noflush'], { input: text });
  assert.equal(code, 0, `${tool}: ${stderr}\n${text}`);
  assert.equal(stdout + stderr, '');
}

function rulesOptions(mode: IptablesMode, options: Partial<RuleOptions> = {}): IptablesOptions {
  return { mode, chain: CHAIN, randomFully: true, toPorts: [], ...options };
}
