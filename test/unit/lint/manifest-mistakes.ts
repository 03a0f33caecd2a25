import { type Case, CONFIG_MAP, configMap, HOST_BITS } from './manifest-support.ts';

/** What may be wrong with how a manifest holds its configs. */
export const MISTAKES: readonly Case[] = [
  [
    'an empty value, at its key',
    configMap('‸ip-masq-a: |', '', '‸ip-masq-b:', '‸ip-masq-c: ""', 'z: ""'),
    ...Array<string>(3).fill(
      'warning: the document is empty; write a config, or remove the file: an empty one still turns off the RFC 1918 defaults',
    ),
  ],
  [
    'null for a value',
    configMap('‸ip-masq-a: null'),
    'warning: the document is empty; write a config, or remove the file: an empty one still turns off the RFC 1918 defaults',
  ],
  [
    'values that are no text',
    configMap('ip-masq-a: ‸64', 'ip-masq-b: ‸yes', 'ip-masq-c:', '  - ‸x').replace('- ‸x', '‸- x'),
    ...[
      'a" must be text, but is the number 64',
      'b" must be text, but is the boolean true',
      'c" must be text, but is a list',
    ].map(
      (said) =>
        `error: the value of "ip-masq-${said}; write "ip-masq-${said.charAt(0)}: |" and the config below, indented`,
    ),
  ],
  [
    'data that is no map',
    'apiVersion: v1\nkind: ConfigMap\ndata: ‸|\n  x\n'.replace('‸|\n  x', '|\n  ‸x'),
    'error: data of a ConfigMap must be a map, but is the text "x\\x0a"; write "ip-masq-…: |" and the config below',
  ],
  [
    'the same key twice, also as binaryData',
    `${configMap('ip-masq-a: "{}"', "‸'ip-masq-a': ''")}binaryData: {‸ip-masq-a: ""}\n`,
    ...Array<string>(2).fill(
      'error: the key "ip-masq-a" is set twice (the other: m.yaml:6:3); keep one; the API server takes no more',
    ),
  ],
  [
    'data twice',
    `${configMap('ip-masq-a: "{}"')}‸data: {ip-masq-b: "{}"}\n`,
    'error: the key "data" is set twice (the other: m.yaml:5:1); keep one; the API server takes no more',
  ],
  [
    'names that are close',
    configMap('‸ip-masq.yaml: |', '  x: 1', '‸ip-masq: ""'),
    'warning: the key "ip-masq.yaml" is not read: the name of a source begins with ip-masq-; rename it',
    'warning: the key "ip-masq" is not read: the name of a source begins with ip-masq-; rename it',
  ],
  [
    'the key of older agents',
    configMap('config: "{}"').replace('name: ', 'name: ‸'),
    'warning: no key of ConfigMap "ip-masq" begins with ip-masq-: nothing of it is read; rename the key; where a volume mounts it under another name, check its text as a file of that name',
  ],
  [
    'keys that no ConfigMap takes',
    configMap('‸"ip-masq-a/\\e[2J": "{}"', `‸ip-masq-${'a'.repeat(246)}: "{}"`),
    'error: a ConfigMap takes no key "ip-masq-a/\\x1b[2J"; use up to 253 letters, digits, "-", "_" and "."',
    `error: a ConfigMap takes no key "ip-masq-${'a'.repeat(72)}…"; use up to 253 letters, digits, "-", "_" and "."`,
  ],
  [
    'binaryData that is not base64',
    `apiVersion: v1\nkind: ConfigMap\nbinaryData:\n  ip-masq-a: ‸abc\n  ip-masq-b: |\n    ‸a b=\n  ip-masq-c: ‸"===="\n`,
    ...['a', 'b', 'c'].map(
      (key) =>
        `error: the value of "ip-masq-${key}" in binaryData is not base64; encode it, or move it to data`,
    ),
  ],
  [
    'binaryData that is no config',
    `apiVersion: v1\nkind: ConfigMap\nbinaryData: {ip-masq-a: ‸//4=, ip-masq-b: ‸gICA, ip-masq-c: ‸eDogMQo=}\n`,
    'error: "ip-masq-a" is UTF-16, not UTF-8; save it as UTF-8',
    'error: "ip-masq-b" has a byte that is not UTF-8; save the file as UTF-8',
    'error: unknown key "x"; known keys: nonMasqueradeCIDRs, masqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6, resyncInterval, cidrLimit',
  ],
  ['a NUL', configMap('ip-masq-a: ‸"\\0"'), 'error: "ip-masq-a" has a NUL byte; save the file as plain text'],
  [
    'a text that is larger than any ConfigMap',
    configMap('ip-masq-a: |', `  ‸#${'é'.repeat(524_288)}`),
    'error: "ip-masq-a" is larger than 1 MiB (1048578 bytes); split it, or use wider CIDRs',
  ],
  [
    'a document that is no YAML, among others',
    `${CONFIG_MAP}---\nkind: "{{ .Values.kind }}\n‸---\n${CONFIG_MAP.replace('ip-masq-a', 'ip-masq-b')}`,
    HOST_BITS,
    'error: is not valid YAML: deficient indentation; close the bracket or quote; the file may be cut off',
    HOST_BITS,
  ],
  [
    'a manifest that is cut off',
    `${CONFIG_MAP.replace('‸', '')}binaryData: {‸`,
    'error: is not valid YAML: unexpected end of the stream within a flow collection; close the bracket or quote; the file may be cut off',
  ],
  [
    'a directive before a document that is no YAML',
    `# hello\n%YAML 1.1\n---\n${CONFIG_MAP}---\napiVersion: ‸@\n`,
    HOST_BITS,
    'error: is not valid YAML: bad indentation of a mapping entry; check indentation, quotes and colons of this line and the one before',
  ],
];
