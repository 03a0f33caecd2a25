import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatProblemFrame } from '../../../lib/config/frame.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import { decodeSource } from '../../../lib/config/source.ts';
import { validateSource } from '../../../lib/config/validate.ts';
import { almostConfig } from './arbitrary.ts';
import { OPTIONS, problemLines, UNPRINTABLE, validate } from './support.ts';

const KNOWN =
  'known keys: nonMasqueradeCIDRs, masqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6, resyncInterval, cidrLimit';
const DASH = 'write each CIDR on its own line behind a dash, such as "- 10.0.0.0/8"';
const EMPTY_ITEM = 'remove it, or write a CIDR such as 10.0.0.0/8 behind a dash';
const EMPTY_LIST = 'write [] for an empty list, or remove the key';
const WHOLE_NUMBER = 'write a whole number such as 64, without quotes';
const TRUE_OR_FALSE = 'write true or false, without quotes';
const DURATION = 'write a Go duration such as "60s"';
const DURATION_RANGE = 'write a Go duration such as 60s or 1m30s, from 100ms to 576h';
const CASE = 'keep one; keys are the same whatever their case';
const NO_MAP = 'a config must be a map of keys, but this is';
const KEYS = 'write keys such as "nonMasqueradeCIDRs:"';
const LIST_KEYS = ['nonMasqueradeCIDRs', 'masqueradeCIDRs'] as const;

type Case = readonly [name: string, text: string, lines: readonly string[]];

const BAD_SYNTAX: readonly Case[] = [
  [
    'a truncated JSON file',
    '{"nonMasqueradeCIDRs": ["10.0.0.0/8",',
    [
      's:1:38: error: is not valid YAML: unexpected end of the stream within a flow collection; close the bracket or quote; the file may be cut off',
    ],
  ],
  [
    'two documents',
    '---\nmasqLinkLocal: true\n---\nmasqLinkLocal: false\n',
    ['s:4:1: error: has more than one YAML document; keep one document, without "---" between'],
  ],
];

const BAD_SHAPE: readonly Case[] = [
  ['a list at the top', '- 10.0.0.0/8\n', [`s:1:1: error: ${NO_MAP} a list; ${KEYS}`]],
  ['a text at the top', '# c\nhello', [`s:2:1: error: ${NO_MAP} the text "hello"; ${KEYS}`]],
  [
    'a ConfigMap manifest instead of its data, and nothing else about it',
    'apiVersion: v1\nkind: ConfigMap\ndata:\n  ip-masq-a: |\n    foo: 1\n',
    [
      's:1:1: error: this is a Kubernetes manifest, not the config inside it; keep only what stands below "data:" and its ip-masq-* key, or apply the manifest and mount it',
    ],
  ],
  [
    'keys that are equal but for case',
    'masqLinkLocal: true\n\nMasqLinkLocal: true\nMASQLINKLOCAL: true\n',
    [
      `s:3:1: error: the key "MasqLinkLocal" is set twice (the other: s:1:1); ${CASE}`,
      `s:4:1: error: the key "MASQLINKLOCAL" is set twice (the other: s:1:1); ${CASE}`,
    ],
  ],
  [
    'an unknown key near a known one',
    'nonMasqueradeCIDR: []\n',
    ['s:1:1: error: unknown key "nonMasqueradeCIDR"; did you mean "nonMasqueradeCIDRs"?'],
  ],
  ['an unknown key near none', 'data: x', [`s:1:1: error: unknown key "data"; ${KNOWN}`]],
  [
    'keys that are no text',
    '1: a\n? [b]\n: c\n? {d: e}\n: f',
    [
      `s:1:1: error: unknown key "1"; ${KNOWN}`,
      `s:2:3: error: unknown key "(a list)"; ${KNOWN}`,
      `s:4:3: error: unknown key "(a map)"; ${KNOWN}`,
    ],
  ],
  ['a merge key', '<<: {masqLinkLocal: true}', [`s:1:1: error: unknown key "<<"; ${KNOWN}`]],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype'].map(
    (key): Case => [
      `the key ${key}`,
      `masqLinkLocal: true\n${key}: {masqLinkLocal: false}`,
      [`s:2:1: error: unknown key "${key}"; ${KNOWN}`],
    ],
  ),
  [
    'a text for a list',
    'nonMasqueradeCIDRs: 10.0.0.0/8\n',
    [`s:1:21: error: nonMasqueradeCIDRs must be a list of CIDRs, but is the text "10.0.0.0/8"; ${DASH}`],
  ],
  [
    'nothing for a list',
    'nonMasqueradeCIDRs:\nmasqueradeCIDRs: ~',
    [
      `s:1:19: error: nonMasqueradeCIDRs must be a list of CIDRs, but is empty; ${EMPTY_LIST}`,
      `s:2:18: error: masqueradeCIDRs must be a list of CIDRs, but is empty; ${EMPTY_LIST}`,
    ],
  ],
  [
    'empty and null items',
    'nonMasqueradeCIDRs:\n- \n- 10.0.0.0/8\n-\n- ~\n- null\n- ""\n',
    [
      `s:2:1: error: item 1 of nonMasqueradeCIDRs must be text, but is empty; ${EMPTY_ITEM}`,
      `s:4:1: error: item 3 of nonMasqueradeCIDRs must be text, but is empty; ${EMPTY_ITEM}`,
      `s:5:3: error: item 4 of nonMasqueradeCIDRs must be text, but is empty; ${EMPTY_ITEM}`,
      `s:6:3: error: item 5 of nonMasqueradeCIDRs must be text, but is empty; ${EMPTY_ITEM}`,
      's:7:3: error: "" is empty; remove the item, or write a CIDR such as 10.0.0.0/8',
    ],
  ],
  [
    'numbers, booleans, lists and maps for CIDRs',
    'masqueradeCIDRs: [10, 10.5, yes, [], {}]',
    [
      `s:1:19: error: item 1 of masqueradeCIDRs must be text, but is the number 10; ${DASH}`,
      `s:1:23: error: item 2 of masqueradeCIDRs must be text, but is the number 10.5; ${DASH}`,
      `s:1:29: error: item 3 of masqueradeCIDRs must be text, but is the boolean true; ${DASH}`,
      `s:1:34: error: item 4 of masqueradeCIDRs must be text, but is a list; ${DASH}`,
      `s:1:38: error: item 5 of masqueradeCIDRs must be text, but is a map; ${DASH}`,
    ],
  ],
  ...(['masqLinkLocal', 'masqLinkLocalIPv6'] as const).flatMap((key): readonly Case[] =>
    [
      ['"yes"', 'the text "yes"'],
      ['1', 'the number 1'],
      ['tRUE', 'the text "tRUE"'],
      ['[]', 'a list'],
      ['~', 'empty'],
    ].map(([value, is]) => [
      `${value} for ${key}`,
      `${key}: ${value}`,
      [`s:1:${key.length + 3}: error: ${key} must be true or false, but is ${is}; ${TRUE_OR_FALSE}`],
    ]),
  ),
  ...(
    [
      ['-1', '0 or more, but is the number -1'],
      ['1.5', 'a whole number, but is the number 1.5'],
      ['.nan', 'a whole number, but is the number NaN'],
      ['.inf', 'a whole number, but is the number Infinity'],
      ['ten', 'a whole number, but is the text "ten"'],
      ['"64"', 'a whole number, but is the text "64"'],
      ['1e2', 'a whole number, but is the text "1e2"'],
      ['true', 'a whole number, but is the boolean true'],
      ['~', 'a whole number, but is empty'],
      ['[64]', 'a whole number, but is a list'],
    ] as const
  ).map(
    ([value, is]): Case => [
      `${value} for cidrLimit`,
      `cidrLimit: ${value}`,
      [`s:1:12: error: cidrLimit must be ${is}; ${WHOLE_NUMBER}`],
    ],
  ),
  ...(
    [
      ['60', 'the number 60'],
      ['0', 'the number 0'],
      ['1:30', 'the number 90'],
      ['~', 'empty'],
      ['[60s]', 'a list'],
    ] as const
  ).map(
    ([value, is]): Case => [
      `${value} for resyncInterval`,
      `resyncInterval: ${value}`,
      [`s:1:17: error: resyncInterval must be text, but is ${is}; ${DURATION}`],
    ],
  ),
];

const BAD_VALUES: readonly Case[] = [
  [
    'a bad CIDR, with what to write instead',
    'nonMasqueradeCIDRs:\n  - 10.0.0.0/8\n  - 10.0.0.1/8\nmasqueradeCIDRs: [10.0.0.0]\n',
    [
      's:3:5: error: "10.0.0.1/8" is no network address: bits after /8 are set; write 10.0.0.0/8 for the whole network, or 10.0.0.1/32 for this one address',
      's:4:19: error: "10.0.0.0" has no prefix length; write 10.0.0.0/32',
    ],
  ],
  [
    'a CIDR with an escape sequence, which it does not repeat as it is',
    'nonMasqueradeCIDRs: ["10.0.0.0/8\\e[2J\\n"]',
    [
      's:1:22: error: "10.0.0.0/8\\x1b[2J\\x0a" contains white space or invisible characters; write a number from 0 to 32 after the "/"',
    ],
  ],
  ...(
    [
      ['50ms', 'is not between 100ms and 576h'],
      ['1d', 'is not a Go duration'],
      ['"60"', 'is not a Go duration'],
    ] as const
  ).map(
    ([value, is]): Case => [
      `${value} for resyncInterval`,
      `resyncInterval: ${value}`,
      [`s:1:17: error: resyncInterval "${value.replaceAll('"', '')}" ${is}; ${DURATION_RANGE}`],
    ],
  ),
];

describe('a source is rejected, with place and remedy, for', () => {
  for (const [name, text, lines] of [...BAD_SYNTAX, ...BAD_SHAPE, ...BAD_VALUES]) {
    it(name, () => assert.deepEqual(problemLines(text), lines));
  }

  it('many things at once, from top to bottom', () => {
    const text = [
      'nonMasqueradeCIDRs:',
      '- 10.0.0.1/8',
      '- 7',
      '- fd00::/8',
      'foo: 1',
      'masqLinkLocal: 1',
      'masqueradeCIDRs: x',
      'resyncInterval: 1d',
      'cidrLimit: -1',
      'Foo: 2',
      'NONMASQUERADECIDRS: []',
      'masqLinkLocalIPv6: maybe',
    ].join('\n');
    const { problems } = validate(text, { enableIPv6: false });
    assert.deepEqual(
      problems.map(({ at, kind, severity }) => [at?.kind === 'file' && at.line, kind, severity]),
      [
        [2, 'cidr', 'error'],
        [3, 'shape', 'error'],
        [4, 'ipv6-disabled', 'error'],
        [5, 'unknown-key', 'error'],
        [6, 'shape', 'error'],
        [7, 'shape', 'error'],
        [8, 'duration', 'error'],
        [9, 'shape', 'error'],
        [10, 'unknown-key', 'error'],
        [11, 'duplicate-key', 'error'],
        [12, 'shape', 'error'],
      ],
    );
  });
});

describe('an IPv6 entry', () => {
  const text = 'nonMasqueradeCIDRs:\n- 10.0.0.0/8\n- FD00:0::/8\n';

  it('is an error while IPv6 is not enabled', () => {
    assert.deepEqual(problemLines(text, { enableIPv6: false }), [
      's:3:3: error: fd00::/8 is IPv6, but IPv6 is not enabled; start the agent with --enable-ipv6, or remove the entry',
    ]);
  });

  it('is fine, in its normal form, while IPv6 is enabled', () => {
    const { config, problems } = validate(text);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      config.nonMasqueradeCIDRs.map(({ value }) => value.text),
      ['10.0.0.0/8', 'fd00::/8'],
    );
  });
});

describe('the limit of CIDRs', () => {
  const listOf = (key: string, count: number): string =>
    `${key}:\n${Array.from({ length: count }, (_, index) => `- 10.${index}.0.0/16\n`).join('')}`;
  const REMEDY = 'join CIDRs into wider ones, or raise "cidrLimit"';
  const exceeded = (line: number, count: number, limit: number): string =>
    `s:${line}:3: error: ${count} ${count === 1 ? 'CIDR' : 'CIDRs'}, but this source may list only ${limit}; ${REMEDY}`;

  for (const [name, text, options, lines] of [
    ['lets 64 pass', listOf(LIST_KEYS[0], 64), {}, []],
    ['stops the 65th', listOf(LIST_KEYS[0], 65), {}, [exceeded(66, 65, 64)]],
    ['is that of the command line', listOf(LIST_KEYS[1], 3), { cidrLimit: 2 }, [exceeded(4, 3, 2)]],
    ['is that of the source where it says so', `cidrLimit: 65\n${listOf(LIST_KEYS[0], 65)}`, {}, []],
    [
      'may be lowered by the source',
      `${listOf(LIST_KEYS[0], 3)}cidrLimit: 2\n`,
      { cidrLimit: 100 },
      [exceeded(4, 3, 2)],
    ],
    ['may be 0', `${listOf(LIST_KEYS[0], 1)}cidrLimit: 0\n`, {}, [exceeded(2, 1, 0)]],
    ['may be 0 on the command line', listOf(LIST_KEYS[0], 1), { cidrLimit: 0 }, [exceeded(2, 1, 0)]],
    ['may be 0 where nothing is listed', 'nonMasqueradeCIDRs: []\ncidrLimit: 0\n', {}, []],
    ['may be huge', `cidrLimit: 99999999999999999999\n${listOf(LIST_KEYS[0], 65)}`, {}, []],
    ['may be written as 2.0', `cidrLimit: 2.0\n${listOf(LIST_KEYS[0], 2)}`, {}, []],
    [
      'counts both lists together',
      `${listOf(LIST_KEYS[0], 33)}${listOf(LIST_KEYS[1], 32)}`,
      {},
      [exceeded(67, 65, 64)],
    ],
    [
      'counts what is listed twice',
      'cidrLimit: 1\nmasqueradeCIDRs:\n- 10.0.0.0/8\n- 10.0.0.0/8',
      {},
      [exceeded(4, 2, 1)],
    ],
  ] as const) {
    it(name, () => assert.deepEqual(problemLines(text, options), lines));
  }
});

describe('a source is understood', () => {
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
      assert.deepEqual(problems, []);
      assert.deepEqual(
        config.nonMasqueradeCIDRs.map(({ value }) => value.text),
        ['10.0.0.0/8'],
      );
      assert.deepEqual(config.masqueradeCIDRs, []);
      assert.equal(config.masqLinkLocal?.value, true);
      assert.equal(config.masqLinkLocalIPv6, undefined);
      assert.equal(config.resyncInterval?.value, 90_000);
    });
  }

  it('with the place of every value', () => {
    const text = [
      'nonMasqueradeCIDRs:',
      '  - 10.0.0.0/8',
      '  -   "fd00::/8"',
      'masqueradeCIDRs: [10.1.0.0/16, 10.2.0.0/16]',
      'masqLinkLocal: no',
      'masqLinkLocalIPv6:   on',
      'resyncInterval:',
      '  90s',
    ].join('\r\n');
    const { config } = validate(text);
    const located = [
      ...config.nonMasqueradeCIDRs,
      ...config.masqueradeCIDRs,
      config.masqLinkLocal,
      config.masqLinkLocalIPv6,
      config.resyncInterval,
    ];
    assert.deepEqual(
      located.map((value) => value?.origin.kind === 'file' && [value.origin.line, value.origin.column]),
      [
        [2, 5],
        [3, 7],
        [4, 19],
        [4, 32],
        [5, 16],
        [6, 22],
        [8, 3],
      ],
    );
    assert.equal(config.source, 's');
  });

  it('where one list is written once and used for both keys, except for what that means', () => {
    const { config, problems } = validate('nonMasqueradeCIDRs: &l\n- 10.0.0.0/8\nmasqueradeCIDRs: *l\n');
    assert.deepEqual(problems, []);
    assert.deepEqual(config.masqueradeCIDRs, config.nonMasqueradeCIDRs);
  });
});

describe('an empty source', () => {
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

describe('any text in a source of any name', () => {
  const anyName = fc.oneof(fc.constant('ip-masq-a'), fc.string({ unit: 'binary' }));
  const options = { ...OPTIONS, enableIPv6: false, cidrLimit: 1 };

  it('yields a config and problems that stand in the text and print on one line', () => {
    fc.assert(
      fc.property(anyName, almostConfig(), (name, text) => {
        const source = { name, text };
        for (const problem of validateSource(source, options).problems) {
          assert.ok(problem.at?.kind === 'file');
          const lines = text.split('\n');
          assert.ok(problem.at.line >= 1 && problem.at.line <= lines.length);
          const line = lines[problem.at.line - 1] ?? '';
          assert.ok(problem.at.column >= 1 && problem.at.column <= line.length + 1);
          for (const part of [problem.message, problem.remedy, formatProblem(problem)]) {
            assert.doesNotMatch(part, UNPRINTABLE);
          }
          const frame = formatProblemFrame(problem, [source]).split('\n');
          assert.equal(frame.length, problem.other === undefined ? 3 : 6);
          for (const row of frame) assert.doesNotMatch(row, UNPRINTABLE);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it('is understood alike whatever bytes surround it in a file', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const source = decodeSource('s', Buffer.from(bytes));
        const problems = 'text' in source ? validateSource(source, options).problems : [source];
        for (const problem of problems) assert.doesNotMatch(formatProblem(problem), UNPRINTABLE);
      }),
    );
  });

  for (const line of ['-\n', '- 10.0.0.1/8\n', '- 0\n', 'foo: 1\n', 'masqLinkLocal: 1\n']) {
    it(`is answered soon for 256 KiB of ${JSON.stringify(line)}`, { timeout: 10_000 }, () => {
      const head = line.startsWith('-') ? 'nonMasqueradeCIDRs:\n' : '';
      const text = head + line.repeat(2 ** 18 / line.length);
      assert.ok(validate(text).problems.length > 15_000);
    });
  }
});
