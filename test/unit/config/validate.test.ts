import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LINE_BREAK } from '../../../lib/config/config-file.ts';
import { problemFramer } from '../../../lib/config/frame.ts';
import { KEY_NAMES } from '../../../lib/config/keys.ts';
import { formatProblem, locationText } from '../../../lib/config/problem.ts';
import { casesOf } from '../../lab/cases.ts';
import { almostConfig } from './arbitrary.ts';
import { gravityOf, kindsOf, problemLines, UNPRINTABLE, validate } from './support.ts';

const KNOWN = `known keys: ${KEY_NAMES.join(', ')}`;
const LIST_KEYS = ['nonMasqueradeCIDRs', 'masqueradeCIDRs', 'masqueradeFromCIDRs'] as const;

/**
 * Config files, ⏎ for a line break, and the errors in them: place, message and remedy, which is not repeated for each of several.
 * The values of Helm charts are those of cilium/cilium#20137 and #20051.
 */
const REJECTED = casesOf(`
  {"nonMasqueradeCIDRs": ["10.0.0.0/8",
    > 1:38 is not valid YAML: unexpected end of the stream within a flow collection; close the bracket or quote; the file may be cut off
  # {{ a }} {{ b }}⏎masqLinkLocal: true # {{ c }}⏎masqueradeCIDRs: [#{{ d }}]⏎
    > 3:20 has "{{", a placeholder of a template; render the template first, such as with helm template, terraform or envsubst
  {{- range .x }}⏎- {{ . }}⏎{{- end }}⏎
    > 1:1 has "{{", a placeholder of a template; render the template first, such as with helm template, terraform or envsubst
  masqLinkLocal: "{{ .x }}"
    > 1:17 has "{{", a placeholder of a template; render the template first, such as with helm template, terraform or envsubst
  nonMasqueradeCIDRs:⏎%{ for c in cidrs }⏎- \${c}⏎%{ endfor }⏎
    > 2:1 has "%{", a placeholder of a template; render the template first, such as with helm template, terraform or envsubst
  nonMasqueradeCIDRs: ["\${pod_cidr}"]⏎
    > 1:23 has "\${", a placeholder of a template; render the template first, such as with helm template, terraform or envsubst
  {% if x %}⏎masqLinkLocal: true⏎{% endif %}⏎
    > 1:1 has "{%", a placeholder of a template; render the template first, such as with helm template, terraform or envsubst
  - 10.0.0.0/8⏎
    > 1:1 a config must be a map of keys, but this is a list; write keys such as "nonMasqueradeCIDRs:"
  # c⏎hello
    > 2:1 a config must be a map of keys, but this is the text "hello"; write keys such as "nonMasqueradeCIDRs:"
  "nonMasqueradeCIDRs:\\n- 10.0.0.0/8"
    > 1:1 a config must be a map of keys, but this is the text "nonMasqueradeCIDRs:\\x0a- 10.0.0.0/8"; write the config itself, without quotes around it and with real line breaks
  nonMasqueradeCIDRs: |⏎  - 10.0.0.0/8⏎
    > 2:1 nonMasqueradeCIDRs must be a list, but is the text "- 10.0.0.0/8\\x0a"; remove the "|" or the quotes behind nonMasqueradeCIDRs: with them a list is text
  apiVersion: v1⏎kind: ConfigMap⏎data:⏎  ip-masq-a: |⏎    foo: 1⏎
    > 1:1 this is a Kubernetes manifest, not the config inside it; keep only what stands below "data:" and its ip-masq-* key, or apply the manifest and mount it
  debug: {enabled: true}⏎ipMasqAgent:⏎  enabled: true⏎  config:⏎    nonMasqueradeCIDRs: [10.0.0.0/8]⏎
    > 5:5 nonMasqueradeCIDRs is below "ipMasqAgent.config", as in the values of a Helm chart: a config file has it at the top; render the chart and check that: helm template … | ip-masq-agent check -f -
  ipMasqAgent:⏎  config: |⏎    masqLinkLocal: true⏎
    > 2:3 masqLinkLocal is below "ipMasqAgent.config", as in the values of a Helm chart: a config file has it at the top; render the chart and check that: helm template … | ip-masq-agent check -f -
  flags: {masq-chain: IP-MASQ}⏎configFiles:⏎  ip-masq-a: {NonMasqueradeCIDRs: []}⏎
    > 3:15 NonMasqueradeCIDRs is below "configFiles.ip-masq-a", as in the values of a Helm chart: a config file has it at the top; render the chart and check that: helm template … | ip-masq-agent check -f -
  masqLinkLocal: true⏎⏎MasqLinkLocal: true⏎masqLinkLocal: true⏎
    > 3:1 the key "MasqLinkLocal" is set twice (the other: s:1:1); keep one; the case of keys makes no difference
    > 4:1 the key "masqLinkLocal" is set twice (the other: s:1:1)
  masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24, Address: 203.0.113.0/24}]
    > 1:74 the key "Address" is set twice (the other: s:1:48); keep one; the case of keys makes no difference
  nonMasqueradeCIDR: []⏎
    > 1:1 unknown key "nonMasqueradeCIDR"; did you mean "nonMasqueradeCIDRs"?
  data: x
    > 1:1 unknown key "data"; ${KNOWN}
  1: a⏎? [b]⏎: c⏎? {d: e}⏎: f
    > 1:1 unknown key "1"; ${KNOWN}
    > 2:3 unknown key "(a list)"
    > 4:3 unknown key "(a map)"
  masqLinkLocal: true⏎<<: {masqLinkLocal: true}
    > 2:1 unknown key "<<"; ${KNOWN}
  masqLinkLocal: true⏎__proto__: {masqLinkLocal: false}
    > 2:1 unknown key "__proto__"; ${KNOWN}
  masqLinkLocal: true⏎constructor: {masqLinkLocal: false}
    > 2:1 unknown key "constructor"; ${KNOWN}
  masqLinkLocal: true⏎toString: {masqLinkLocal: false}
    > 2:1 unknown key "toString"; ${KNOWN}
  masqLinkLocal: true⏎hasOwnProperty: {masqLinkLocal: false}
    > 2:1 unknown key "hasOwnProperty"; ${KNOWN}
  masqLinkLocal: true⏎prototype: {masqLinkLocal: false}
    > 2:1 unknown key "prototype"; ${KNOWN}
  nonMasqueradeCIDRs: 10.0.0.0/8⏎
    > 1:21 nonMasqueradeCIDRs must be a list, but is the text "10.0.0.0/8"; write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"
  masqueradeCIDRs: [10, 10.5, yes, [], {}]
    > 1:19 item 1 of masqueradeCIDRs must be text, but is the number 10; write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"
    > 1:23 item 2 of masqueradeCIDRs must be text, but is the number 10.5
    > 1:29 item 3 of masqueradeCIDRs must be text, but is the boolean true
    > 1:34 item 4 of masqueradeCIDRs must be text, but is a list
    > 1:38 item 5 of masqueradeCIDRs must be text, but is a map
  nonMasqueradeCIDRs:⏎masqueradeCIDRs: ~⏎masqueradeAddresses:
    > 1:19 nonMasqueradeCIDRs must be a list, but is empty; write [] for an empty list, or remove the key
    > 2:18 masqueradeCIDRs must be a list, but is empty
    > 3:20 masqueradeAddresses must be a list, but is empty
  nonMasqueradeCIDRs:⏎- ⏎- 10.0.0.0/8⏎-⏎- ~⏎- null⏎
    > 2:1 item 1 of nonMasqueradeCIDRs must be text, but is empty; remove it, or write a CIDR such as 10.0.0.0/8 behind a dash
    > 4:1 item 3 of nonMasqueradeCIDRs must be text, but is empty
    > 5:3 item 4 of nonMasqueradeCIDRs must be text, but is empty
    > 6:3 item 5 of nonMasqueradeCIDRs must be text, but is empty
  masqueradeAddresses: {destination: 0.0.0.0/0, address: 198.51.100.0/24}
    > 1:22 masqueradeAddresses must be a list, but is a map; write each item as "- {destination: 0.0.0.0/0, address: 198.51.100.0/24}"
  masqueradeAddresses: [198.51.100.0/24, 7, ~, [], {}]
    > 1:23 item 1 of masqueradeAddresses must have a destination and an address, but is the text "198.51.100.0/24"; write each item as "- {destination: 0.0.0.0/0, address: 198.51.100.0/24}"
    > 1:40 item 2 of masqueradeAddresses must have a destination and an address, but is the number 7
    > 1:43 item 3 of masqueradeAddresses must have a destination and an address, but is empty
    > 1:46 item 4 of masqueradeAddresses must have a destination and an address, but is a list
    > 1:50 item 5 of masqueradeAddresses has no destination
    > 1:50 item 5 of masqueradeAddresses has no address
  masqueradeAddresses:⏎- destination: [0.0.0.0/0]⏎  ADDRESS:⏎- {Address: {}, destination: 8}
    > 2:16 destination of item 1 of masqueradeAddresses must be text, but is a list; write each item as "- {destination: 0.0.0.0/0, address: 198.51.100.0/24}"
    > 3:10 address of item 1 of masqueradeAddresses must be text, but is empty
    > 4:13 address of item 2 of masqueradeAddresses must be text, but is a map
    > 4:30 destination of item 2 of masqueradeAddresses must be text, but is the number 8
  masqueradeAddresses: [{x: 1, "<<": 2, __proto__: {}, destination: 0.0.0.0/0, address: 198.51.100.0/24}]
    > 1:24 unknown key "x"; known keys: destination, address
    > 1:30 unknown key "<<"
    > 1:39 unknown key "__proto__"
  masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.0/24, destinatoin: ~}]
    > 1:74 unknown key "destinatoin"; did you mean "destination"?
  masqueradeAddresses: [{destination: 0.0.0.0/0, address: "FD00::/64"}]
    > 1:23 0.0.0.0/0 is IPv4, but its address is to be in fd00::/64, which is IPv6; write two items, one for each family
  masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.7}]
    > 1:57 "198.51.100.7" has no prefix length; write 198.51.100.7/32
  masqLinkLocal: "yes"
    > 1:16 masqLinkLocal must be true or false, but is the text "yes"; write true or false, without quotes
  masqLinkLocalIPv6: 1
    > 1:20 masqLinkLocalIPv6 must be true or false, but is the number 1; write true or false, without quotes
  cidrLimit: -1
    > 1:12 cidrLimit must be 0 or more, but is the number -1; write a whole number such as 64, without quotes
  cidrLimit: 1.5
    > 1:12 cidrLimit must be a whole number, but is the number 1.5; write a whole number such as 64, without quotes
  cidrLimit: .nan
    > 1:12 cidrLimit must be a whole number, but is the number NaN; write a whole number such as 64, without quotes
  cidrLimit: "64"
    > 1:12 cidrLimit must be a whole number, but is the text "64"; write a whole number such as 64, without quotes
  cidrLimit: 1e2
    > 1:12 cidrLimit must be a whole number, but is the text "1e2"; write a whole number such as 64, without quotes
  resyncInterval: 60
    > 1:17 resyncInterval must be text, but is the number 60; write a Go duration such as "60s"
  resyncInterval: 1:30
    > 1:17 resyncInterval must be text, but is the number 90; write a Go duration such as "60s"
  resyncInterval: 50ms
    > 1:17 resyncInterval "50ms" is not between 100ms and 576h; write a Go duration such as 60s or 1m30s, from 100ms to 576h
  resyncInterval: 1d
    > 1:17 resyncInterval "1d" is not a Go duration; write a Go duration such as 60s or 1m30s, from 100ms to 576h
  resyncInterval: "60"
    > 1:17 resyncInterval "60" is not a Go duration; write a Go duration such as 60s or 1m30s, from 100ms to 576h
  nonMasqueradeCIDRs:⏎  - 10.0.0.0/8⏎  - 10.0.0.0⏎
    > 3:5 "10.0.0.0" has no prefix length; write 10.0.0.0/32
  masqueradeCIDRs: ["10.0.0.0/8\\e[2J\\n"]
    > 1:19 "10.0.0.0/8\\x1b[2J\\x0a" contains white space or invisible characters; write a number from 0 to 32 after the "/"
`);

describe('a config file is rejected, with place and remedy:', () => {
  for (const { name, found } of REJECTED)
    it(name, () => {
      const lines = problemLines(name.replaceAll('⏎', '\n')).map((line) =>
        line.replace(/^(s:\S+): error:/, '$1'),
      );
      const begins = lines.map((line, index) => line.slice(0, `s:${found[index]}`.length));
      assert.deepEqual(
        begins,
        found.map((line) => `s:${line}`),
      );
    });
});

describe('an entry of a family', () => {
  const text = 'nonMasqueradeCIDRs:\n- 10.0.0.0/8\n- FD00:0::/8\n';

  for (const [families, line] of [
    [
      ['IPv4'],
      's:3:3: error: fd00::/8 is IPv6, but IPv6 is not enabled; start the agent with --enable-ipv6, or remove the entry',
    ],
    [
      ['IPv6'],
      's:2:3: error: 10.0.0.0/8 is IPv4, but IPv4 is not enabled; start the agent with --enable-ipv4, or remove the entry',
    ],
  ] as const)
    it(`is an error if only ${families} is enabled, and of the other`, () =>
      assert.deepEqual(problemLines(text, { families }), [line]));

  it('is fine, in its normal form, while the family is enabled', () => {
    const { config, problems } = validate(text);
    const texts = config.nonMasqueradeCIDRs.map(({ value }) => value.text);
    assert.deepEqual([problems, texts], [[], ['10.0.0.0/8', 'fd00::/8']]);
  });
});

describe('an item of masqueradeAddresses', () => {
  for (const [isUsable, ranges] of [
    [false, ['0.0.0.0/8', '0.0.0.0/32', '127.0.0.0/8', '127.1.0.0/16', '169.254.0.0/16', '224.0.0.0/4']],
    [false, ['255.255.255.255/32', '::/128', '::1/128', 'fe80::/10', 'fe80::/64', 'ff00::/8']],
    // Linux lets a node have addresses of 240.0.0.0/4, and clouds give it some.
    [true, ['0.0.0.0/0', '0.0.0.0/7', '126.0.0.0/7', '169.254.0.0/15', '240.0.0.0/4', '::/0', 'fe80::/9']],
  ] as const)
    for (const range of ranges)
      it(`${isUsable ? 'may' : 'must not'} have the range ${range}`, () => {
        const destination = range.includes(':') ? '2000::/3' : '8.0.0.0/8';
        const text = `masqueradeAddresses: [{destination: "${destination}", address: "${range}"}]`;
        const { config, problems } = validate(text, { families: ['IPv4', 'IPv6'] });
        assert.deepEqual(gravityOf(problems), isUsable ? [] : ['error unusable-range']);
        assert.equal(config.masqueradeAddresses.length, isUsable ? 1 : 0);
      });

  const item = '{DESTINATION: "2001:DB8:0::/32", Address: "fd00::/64"}';

  for (const [families, kind, text, ...places] of [
    [['IPv4'], 'ipv6-disabled', item, 's:1:37', 's:1:65'],
    [['IPv6'], 'ipv4-disabled', '{destination: 0.0.0.0/0, address: 10.0.0.0/8}', 's:1:37', 's:1:57'],
  ] as const)
    it(`is an error for each network of another family than ${families}`, () => {
      const { problems } = validate(`masqueradeAddresses: [${text}]`, { families });
      const found = problems.map((one) => `${one.kind} ${one.at && locationText(one.at)}`);
      const expected = places.map((place) => `${kind} ${place}`);
      assert.deepEqual(found, expected);
    });

  it('is two networks in normal form, at the place of the item, also behind an alias', () => {
    const { config, problems } = validate(`masqueradeAddresses: [&a ${item}, *a]`);
    assert.deepEqual(problems, []);
    const items = config.masqueradeAddresses.map(({ value: { destination, range }, origin }) => [
      destination.text,
      range.text,
      locationText(origin),
    ]);
    const one = ['2001:db8::/32', 'fd00::/64', 's:1:26'];
    assert.deepEqual(items, [one, one]);
  });

  it('has its problems told once, even if aliases stand for it', () => {
    const text = 'masqueradeAddresses: [&a {x: 1, destination: 0.0.0.0/0, address: 10.0.0.0/8}, *a, *a]';
    assert.deepEqual(kindsOf(validate(text).problems), ['unknown-key']);
  });
});

describe('the limit of CIDRs', () => {
  const listOf = (count: number, key: string = LIST_KEYS[0]): string =>
    `${key}:\n${Array.from({ length: count }, (_, index) => `- 10.${index}.0.0/16\n`).join('')}`;
  const REMEDY = 'join CIDRs into wider ones, or raise "cidrLimit"';
  const exceeded = (line: number, count: number, limit: number): string =>
    `s:${line}:3: error: ${count} ${count === 1 ? 'CIDR' : 'CIDRs'}, but this config file may list only ${limit}; ${REMEDY}`;

  for (const [name, text, options, lines] of [
    ['lets 64 pass', listOf(64), {}, []],
    ['stops the 65th', listOf(65), {}, [exceeded(66, 65, 64)]],
    ['is that of the command line', listOf(3), { cidrLimit: 2 }, [exceeded(4, 3, 2)]],
    ['is that of the config file if it says so', `cidrLimit: 65\n${listOf(65)}`, {}, []],
    [
      'may be lowered by the config file',
      `${listOf(3)}cidrLimit: 2\n`,
      { cidrLimit: 100 },
      [exceeded(4, 3, 2)],
    ],
    ['may be 0', `${listOf(1)}cidrLimit: 0\n`, {}, [exceeded(2, 1, 0)]],
    ['may be 0 on the command line', listOf(1), { cidrLimit: 0 }, [exceeded(2, 1, 0)]],
    ['may be 0 if nothing is listed', 'nonMasqueradeCIDRs: []\ncidrLimit: 0\n', {}, []],
    ['may be as high as the ceiling', `cidrLimit: 1000\n${listOf(65)}`, {}, []],
    [
      'may not be above the ceiling',
      'cidrLimit: 1001\n',
      {},
      [
        's:1:12: error: cidrLimit is 1001, but no config file may list more than 1000 CIDRs; lower it, or start the agent with a larger --cidr-limit-max',
      ],
    ],
    ['has the ceiling of the command line', `cidrLimit: 1001\n${listOf(65)}`, { cidrLimitMax: 1001 }, []],
    [
      'does not hide mistakes behind it',
      `cidrLimit: 1\n${listOf(2)}- 0\n`,
      {},
      [
        exceeded(4, 3, 1),
        's:5:3: error: item 3 of nonMasqueradeCIDRs must be text, but is the number 0; write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"',
      ],
    ],
    ['may be written as 2.0', `cidrLimit: 2.0\n${listOf(2)}`, {}, []],
    ['counts both lists together', `${listOf(33)}${listOf(32, LIST_KEYS[1])}`, {}, [exceeded(67, 65, 64)]],
    [
      'counts each item of masqueradeAddresses once',
      `cidrLimit: 1\nmasqueradeAddresses:\n${'- {destination: 0.0.0.0/0, address: 10.0.0.0/8}\n'.repeat(2)}`,
      {},
      [exceeded(4, 2, 1)],
    ],
    ['counts what is listed twice', `cidrLimit: 1\n${listOf(1)}- 10.0.0.0/16`, {}, [exceeded(4, 2, 1)]],
  ] as const) {
    it(name, () => assert.deepEqual(problemLines(text, options), lines));
  }
});

describe('a config file is understood', () => {
  for (const [name, text] of [
    ['as YAML', 'nonMasqueradeCIDRs:\n- 10.0.0.0/8\nmasqLinkLocal: true\nresyncInterval: 90s\n'],
    ['as JSON', '{"nonMasqueradeCIDRs": ["10.0.0.0/8"], "masqLinkLocal": true, "resyncInterval": "90s"}'],
    ['with CRLF', 'nonMasqueradeCIDRs:\r\n- 10.0.0.0/8\r\nmasqLinkLocal: true\r\nresyncInterval: 90s\r\n'],
    [
      'with a byte order mark',
      '\ufeffnonMasqueradeCIDRs: [10.0.0.0/8]\nmasqLinkLocal: true\nresyncInterval: 90s',
    ],
    ['with keys in any case', 'NonMasqueradeCIDRs: [10.0.0.0/8]\nMASQLINKLOCAL: yes\nresyncinterval: 1m30s'],
    ['with an alias', 'resyncInterval: &t 90s\nnonMasqueradeCIDRs: &l ["10.0.0.0/8"]\nmasqLinkLocal: true\n'],
  ] as const) {
    it(name, () => {
      const { config, problems } = validate(text);
      const cidrs = config.nonMasqueradeCIDRs.map(({ value }) => value.text);
      assert.deepEqual([problems, cidrs, config.masqueradeCIDRs], [[], ['10.0.0.0/8'], []]);
      const { masqLinkLocal, masqLinkLocalIPv6, resyncInterval } = config;
      assert.deepEqual(
        [masqLinkLocal?.value, masqLinkLocalIPv6, resyncInterval?.value],
        [true, undefined, 90_000],
      );
    });
  }

  it('with the place of every value', () => {
    const text = [
      ...['nonMasqueradeCIDRs:', '  - 10.0.0.0/8', '  -   "fd00::/8"'],
      ...['masqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]', 'masqLinkLocal: no', 'masqLinkLocalIPv6:   on'],
      ...['resyncInterval:', '  90s'],
    ].join('\r\n');
    const { config } = validate(text);
    const { nonMasqueradeCIDRs, masqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6, resyncInterval } = config;
    const flags = [masqLinkLocal, masqLinkLocalIPv6, resyncInterval];
    const places = [...nonMasqueradeCIDRs, ...masqueradeCIDRs, ...flags].map(
      (value) => value && locationText(value.origin),
    );
    assert.deepEqual(places, ['s:2:5', 's:3:7', 's:4:19', 's:4:32', 's:5:16', 's:6:22', 's:8:3']);
    assert.equal(config.configFileName, 's');
  });

  it('where one list is written once and used for both keys, except for what that means', () => {
    const { config, problems } = validate('nonMasqueradeCIDRs: &l\n- 10.0.0.0/8\nmasqueradeCIDRs: *l\n');
    assert.deepEqual(problems, []);
    assert.deepEqual(config.masqueradeCIDRs, config.nonMasqueradeCIDRs);
  });
});

describe('an empty config file', () => {
  const WARNING =
    's:1:1: warning: the document is empty; write a config, or remove the file: an empty one still turns off the RFC 1918 defaults';

  for (const text of ['', '# comments only\n# more\n', '---\n...\n', '\ufeff']) {
    it(`is a warning and an empty config: ${JSON.stringify(text)}`, () => {
      const { config } = validate(text);
      assert.deepEqual(problemLines(text), [WARNING]);
      assert.deepEqual(config.nonMasqueradeCIDRs, []);
      assert.equal(config.masqLinkLocal, undefined);
    });
  }

  for (const text of ['{}', 'nonMasqueradeCIDRs: []']) {
    it(`is not ${text}, which somebody meant`, () => assert.deepEqual(problemLines(text), []));
  }
});

describe('keys that every object has', () => {
  it('change no prototype', () => {
    validate('__proto__: {masqLinkLocal: true}\nconstructor: {prototype: {polluted: true}}');
    assert.equal('polluted' in {}, false);
    assert.equal('masqLinkLocal' in {}, false);
    assert.equal(validate('__proto__: {masqLinkLocal: true}').config.masqLinkLocal, undefined);
  });
});

describe('any text in a config file of any name', () => {
  const anyName = fc.oneof(fc.constant('ip-masq-a'), fc.string({ unit: 'binary' }));
  const options = { families: ['IPv4'] as const, cidrLimit: 1 };

  it('yields a config and problems that stand in the text and print on one line', () => {
    fc.assert(
      fc.property(anyName, almostConfig(), (name, text) => {
        const configFile = { name, text };
        for (const problem of validate(text, options, name).problems) {
          assert.ok(problem.at?.kind === 'file');
          const line = text.split(LINE_BREAK)[problem.at.line - 1];
          assert.ok(line !== undefined && problem.at.column >= 1 && problem.at.column <= line.length + 1);
          for (const part of [problem.message, problem.remedy, formatProblem(problem)]) {
            assert.doesNotMatch(part, UNPRINTABLE);
          }
          const frame = problemFramer([configFile])(problem).split('\n');
          assert.equal(frame.length, problem.other === undefined ? 3 : 6);
          for (const row of frame) assert.doesNotMatch(row, UNPRINTABLE);
          assert.ok((frame[2]?.length ?? 0) <= (frame[1]?.length ?? 0) + 1, 'the caret is within the width');
        }
      }),
      { numRuns: 3_000 },
    );
  });

  for (const line of ['-\n', '- 10.0.0.1/8\n', '- 0\n', 'foo: 1\n', 'masqLinkLocal: 1\n']) {
    it(`keeps one problem more than is reported of ${JSON.stringify(line)}`, () => {
      const head = line.startsWith('-') ? 'nonMasqueradeCIDRs:\n' : '';
      const { problems } = validate(`${head}${line.repeat(1500)}`, { cidrLimit: 2000, cidrLimitMax: 2000 });
      assert.equal(problems.length, 101);
    });
  }

  it('keeps the first of very many problems from top to bottom, whichever step finds them', () => {
    const { problems } = validate('a: 1\n'.repeat(1500));
    assert.deepEqual(
      problems.map(({ kind, at }) => [kind, at && 'line' in at && at.line]),
      problems.map((_, index) => [index === 0 ? 'unknown-key' : 'duplicate-key', index + 1]),
    );
    assert.equal(problems.length, 101);
  });
});
