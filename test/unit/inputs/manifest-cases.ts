/**
 * A name, a text with a mark before each place of which something is said, and how what is said begins, from top to
 * bottom: the kind of the problem, and its words if no other test has them.
 */
export type Case = readonly [name: string, text: string, ...said: readonly string[]];

/** A ConfigMap in block style with `data` of these lines. */
export function configMap(...data: readonly string[]): string {
  const head = ['apiVersion: v1', 'kind: ConfigMap', 'metadata:', '  name: ip-masq', 'data:'];
  return [...head, ...data.map((line) => `  ${line}`), ''].join('\n');
}

function daemonSet(configMap: string): string {
  return `{kind: DaemonSet, apiVersion: apps/v1, spec: {template: {spec: {volumes: [{configMap: ${configMap}}]}}}}\n`;
}

/** With a host bit set in the config. */
export const CONFIG_MAP = configMap('ip-masq-a: |', '  nonMasqueradeCIDRs:', '    - ‸10.0.0.1/8');

// What kubectl 1.32 prints: a space before a line feed makes it quote the text.
const GET_YAML = `apiVersion: v1
data:
  ip-masq-a: |
    # é 😀
    nonMasqueradeCIDRs:
      - ‸10.0.0.1/8
  ip-masq-b: ‸"nonMasqueradeCIDRs:\\n  - 10.2.0.0/16 \\n  - 10.0.0.1/8\\nmasqLinkLocal: true\\n"
  ip-masq-c: ‸'{"nonMasqueradeCIDRs": ["10.0.0.1/8"]}'
  ip-masq-d: >-
    ‸nonMasqueradeCIDRs:
    [ 10.2.0.0/16,
    10.0.0.1/8 ]
immutable: ‸true
kind: ConfigMap
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"v1","data":{"ip-masq-a":"nonMasqueradeCIDRs: [10.0.0.1/8]"},"kind":"ConfigMap","metadata":{"name":"ip-masq"}}
  creationTimestamp: "2026-01-31T23:59:59Z"
  name: ip-masq
`;

const GET_JSON = `{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "data": {
                "ip-masq-a": ‸"nonMasqueradeCIDRs:\\n  - 10.2.0.0/16\\n  - 10.0.0.1/8\\n",
                "ip-masq-b": ‸"# \\u00e9\\r\\n\\u006eonMasqueradeCIDRs: [\\u003110.0.0.1/8]"
            },
            "kind": "ConfigMap",
            "metadata": {"name": "ip-masq", "creationTimestamp": null, "generation": 1e3}
        },
        {"apiVersion": "v1", "kind": "Secret", "data": {"ip-masq-x": "AAAA"}}
    ],
    "kind": "List",
    "metadata": {"resourceVersion": ""}
}
`;

const HELM = `---
# Source: ip-masq/templates/configmap.yaml
${CONFIG_MAP.replace('|', '| # the chart writes it')}---
# Source: ip-masq/templates/nothing.yaml
---
# Source: ip-masq/templates/daemonset.yaml
apiVersion: apps/v1
kind: DaemonSet
data: {ip-masq-x: 5}
spec: &spec
  <<: {template: {spec: {volumes: [{configMap: {name: ip-masq}}]}}}
...
---
${CONFIG_MAP.replace('ip-masq-a', '"ip-masq-b"')}
# The end
`;

/** What a manifest may be or hold; all with mistakes in its configs. */
export const SHAPES: readonly Case[] = [
  ['what `kubectl get -o yaml` prints', GET_YAML, 'cidr', 'cidr', 'cidr', 'cidr', 'not-updated'],
  ['what `kubectl get -o json` prints', GET_JSON, 'cidr', 'cidr'],
  ['what helm and kustomize print', HELM, 'cidr', 'cidr'],
  ['lines that end as on Windows', CONFIG_MAP.replaceAll('\n', '\r\n'), 'cidr'],
  ['lines that end in a carriage return alone', CONFIG_MAP.replaceAll('\n', '\r'), 'cidr'],
  [
    'a list whose items do not say their kind',
    `apiVersion: v1\nkind: ConfigMapList\nitems:\n- data:\n    ip-masq-a: |-\n      masqueradeCIDRs: [‸10.0.0.1/8]\n- data: {ip-masq-b: ‸'masqueradeCIDRs: [10.0.0.1/8]'}\n`,
    'cidr',
    'cidr',
  ],
  [
    'lists in lists',
    `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{kind: ConfigMap, data: {ip-masq-a: ‸"masqueradeCIDRs: [10.0.0.1/8]"}}]}]}`,
    'cidr',
  ],
  [
    'a block with a tag and an anchor that says how far it is indented',
    configMap('ip-masq-a: &a !!str |2-', '  masqueradeCIDRs:', '', '   - ‸10.0.0.1/8'),
    'cidr',
  ],
  [
    'a block that begins with blank lines',
    configMap('ip-masq-a: |', '', '    ', '    masqLinkLocal: ‸1').replace('\n      \n', '\n  \n'),
    'shape',
  ],
  [
    'plain scalars',
    configMap('ip-masq-a: ‸{', '  }', 'ip-masq-b:', '  ‸masqueradeCIDRs', '  of two lines'),
    'shape: the value of "ip-masq-a" must be text, but is a map; write "ip-masq-a: |" and the config below, indented',
    'shape',
  ],
  [
    'a value that is an alias, at the anchor',
    configMap('x: &text |', '  masqueradeCIDRs: [‸10.0.0.1/8]', 'ip-masq-a: *text'),
    'cidr',
  ],
  [
    'a definition nested far deeper than a config',
    `${CONFIG_MAP}---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: ${'{properties: '.repeat(60)}{}${'}'.repeat(60)}\n`,
    'cidr',
  ],
  [
    'a tab in the indentation of a config',
    configMap('ip-masq-a: |', '  masqueradeCIDRs:', '  ‸\t- 10.0.0.0/8'),
    'syntax',
  ],
  [
    'a bracket that is not closed, at the end of the text',
    configMap('ip-masq-a: |', '  masqueradeCIDRs: [‸', '', 'z: ""'),
    'syntax',
  ],
  [
    'keys such as __proto__',
    configMap('__proto__: ""', 'constructor: ""', 'ip-masq-__proto__: |', '  ‸__proto__: 1'),
    'unknown-key',
  ],
];

/** A DaemonSet of the agent, with the sources of its volume, and what else its container says. */
function agent(sources: string, more = '', mount = '/etc/config', metadata = 'name: a'): string {
  return `---\n{kind: DaemonSet, apiVersion: apps/v1, metadata: {${metadata}}, spec: {template: {spec: {containers: [{image: x/ip-masq-agent:v1, volumeMounts: [{name: c, mountPath: ${mount}}]${more}}], volumes: [{name: c, projected: {sources: [${sources}]}}]}}}}\n`;
}

const OWN = '{configMap: {name: ip-masq}}';
const IN_A = configMap('ip-masq-a: "{}"')
  .replace('name: ip-masq', 'name: ‸ip-masq, namespace: a')
  .replace('metadata:\n  ', 'metadata: {')
  .replace('namespace: a', 'namespace: a}');
const BEHIND = '‸apiVersion: v1\nkind: Secret\n';
const EMPTY = ['empty', 'empty', 'empty', 'empty'];
const MERGE = 'shape: the merge key << is not followed: what it adds is not checked; write its keys out';

/** What may be wrong with how a manifest holds its configs. */
export const MISTAKES: readonly Case[] = [
  [
    'an empty value, at its key',
    configMap('‸ip-masq-a: |', '', '‸ip-masq-b:', '‸ip-masq-c: ""', '‸ip-masq-d: null', 'z: ""'),
    ...EMPTY,
  ],
  [
    'values that are not text',
    configMap('ip-masq-a: ‸64', 'ip-masq-b: ‸yes', 'ip-masq-c:', '‸- x'),
    'shape: the value of "ip-masq-a" must be text, but is the number 64',
    'shape: the value of "ip-masq-b" must be text, but is the boolean true',
    'shape: the value of "ip-masq-c" must be text, but is a list',
  ],
  [
    'data that is not a map',
    'apiVersion: v1\nkind: ConfigMap\ndata: |\n  ‸x\n',
    'shape: data of a ConfigMap must be a map, but is the text "x\\x0a"; write "ip-masq-…: |" and the config below',
  ],
  [
    'the same key twice, also as binaryData',
    `${configMap('ip-masq-a: "{}"', "‸'ip-masq-a': ''")}binaryData: {‸ip-masq-a: ""}\n`,
    'duplicate-key: the key "ip-masq-a" is set twice (the other: m.yaml:6:3); keep one; if two objects stand here, write a line "---" between them',
    'duplicate-key',
  ],
  [
    'a ConfigMap of the agent that is mounted with subPath',
    `${configMap('ip-masq-a: "{}"')}---\n{kind: DaemonSet, apiVersion: apps/v1, spec: {template: {spec: {containers: [{volumeMounts: [{name: c, mountPath: /etc/config/ip-masq-a, subPath: ‸ip-masq-a}, {name: d, subPath: x}]}], volumes: [{name: c, configMap: {name: ip-masq}}, {name: d, configMap: {name: other}}]}}}}\n`,
    'not-updated: a file that is mounted with subPath never gets a change of its ConfigMap; mount the whole volume',
  ],
  [
    'a key that a volume names and the ConfigMap has no more',
    `${configMap('ip-masq-a: "{}"')}${agent('{configMap: {name: ip-masq, items: [{key: ip-masq-a, path: ip-masq-a}, {key: ‸config, path: ip-masq-agent}]}}')}`,
    'not-delivered: ConfigMap "ip-masq" has no key "config": kubelet cannot mount the volume, and no pod starts; write a key that it has, such as "ip-masq-a", or remove the item',
  ],
  [
    'the same in a workload that is none of the agent, and with an item that may be missing',
    `${configMap('config.yaml: "{}"')}---\n${daemonSet('{name: ip-masq, optional: true, items: [{key: ‸config, path: ip-masq-agent}]}')}`,
    'not-a-config-file: ConfigMap "ip-masq" has no key "config": the file is not there; write a key that it has, such as "config.yaml", or remove the item',
  ],
  [
    'a key of a config file that no item of the volume takes',
    `${configMap('config: "{}"', '‸ip-masq-b: "{}"')}${agent('{configMap: {name: ip-masq, items: [{key: config, path: ip-masq-agent}]}}')}`,
    'not-delivered: the key "ip-masq-b" is not read: the volume has only the keys of its items; add it to the items, or remove it',
  ],
  [
    'a ConfigMap in another namespace than the agent',
    `${IN_A}${agent(OWN, '', '/etc/config', 'name: a, namespace: kube-system')}`,
    'not-delivered: nothing of this ConfigMap is read: it is in the namespace "a", and a volume of DaemonSet kube-system/a has only what is in its own; put both into one namespace',
  ],
  [
    // The example of ip-masq-agent-v2 has its name there.
    'a source whose name stands beside it',
    `${configMap('ip-masq-a: "{}"').replace('name: ', 'name: ‸')}${agent('{configMap: ‸null, name: ip-masq}')}`,
    'not-delivered: nothing of this ConfigMap is read: no volume at the config directory of DaemonSet a has it',
    'not-delivered: this source names no ConfigMap: kubelet cannot mount the volume; indent its name further than the line above',
  ],
  [
    'a Secret as the source, which is a ConfigMap here',
    `${configMap('ip-masq-a: "{}"').replace('name: ', 'name: ‸')}${agent('{secret: {name: ip-masq}}')}`,
    'not-delivered: nothing of this ConfigMap is read: the volume of DaemonSet a takes a Secret of that name; name a ConfigMap there',
  ],
  [
    'a Secret that the agent mounts, and one that it does not',
    `${['ip-masq', 'other']
      .map(
        (name) =>
          `---\n{apiVersion: v1, kind: Secret, metadata: {name: ${name}}, data: {ip-masq-a: ‸eDogMQ==}, stringData: {ip-masq-b: ‸"{y: 1}"}}\n`,
      )
      .join('')
      .replace(/(other.*)‸(.*)‸/, '$1$2')}${agent('{secret: {name: ip-masq}}')}`,
    'unknown-key',
    'unknown-key',
  ],
  [
    'a ConfigMap that is not in the volume',
    `${configMap('ip-masq-a: "{}"')}---\n${configMap('ip-masq-b: "{}"').replace('name: ip-masq', 'name: ‸team')}${agent(OWN)}`,
    'not-delivered: nothing of this ConfigMap is read: no volume at the config directory of DaemonSet a has it; add it to the sources of that volume, or remove it',
  ],
  [
    'a ConfigMap of another program beside the agent',
    `${configMap('ip-masq-a: "{}"')}---\n${configMap('config: "{}"').replace('name: ip-masq', 'name: other')}${agent(OWN)}`,
  ],
  [
    'a ConfigMap that another workload than the agent mounts',
    `${configMap('ip-masq-a: "{}"')}---\n${configMap('ip-masq-b: "{}"').replace('name: ip-masq', 'name: other')}${agent(OWN)}---\n${daemonSet('{name: other}')}`,
  ],
  [
    'a volume of the agent with another name for the ConfigMap',
    `${configMap('ip-masq-a: "{}"')}${agent('{configMap: {name: ‸ip-masq-config}}')}`,
    'not-delivered: the volume mounts the ConfigMap "ip-masq-config", but the one here is "ip-masq"; use one name in both',
  ],
  [
    'a volume that no container mounts',
    `${configMap('ip-masq-a: "{}"')}${agent(OWN).replace('{name: c, mountPath', '{name: d, mountPath').replace('[{name: c, proj', '[‸{name: c, proj')}`,
    'not-delivered: the volume "c" is mounted by no container, but the agent reads /etc/config; mount it at /etc/config in the container of the agent',
  ],
  [
    'a volume that is mounted elsewhere than the agent looks',
    `${configMap('ip-masq-a: "{}"')}${agent(OWN, ', args: [--v=2, --config-dir, /etc/masq/]', '‸/etc/config')}`,
    'not-delivered: the volume "c" is mounted at "/etc/config", but the agent reads /etc/masq; mount it at /etc/masq in the container of the agent',
  ],
  [
    'a volume that is mounted where an argument says, by a variable',
    `${configMap('ip-masq-a: "{}"')}${agent(OWN, ', env: [{name: X, value: masq}, {name: DIR, value: /etc/$(X)}], command: [/ip-masq-agent, --config-dir=$(DIR)]', '/etc/masq')}`,
  ],
  [
    'a volume from which a program beside the agent writes its config',
    `${configMap('ip-masq-a: ‸"x: 1"')}${agent(OWN, ', args: [render, --watch]').replace('], volumes: [', ', {name: ip-masq-agent, image: x, volumeMounts: [{name: m, mountPath: /etc/config}]}], volumes: [{name: m, emptyDir: {}}, ')}`,
    'unknown-key',
  ],
  [
    'a file that is mounted alone, under another name',
    `${configMap('config: ‸"x: 1"')}${agent('{configMap: {name: ip-masq, items: [{key: config, path: f}]}}').replace('mountPath: /etc/config', 'mountPath: /etc/config/ip-masq-agent, subPath: ‸f')}`,
    'unknown-key',
    'not-updated',
  ],
  ['data twice', `${configMap('ip-masq-a: "{}"')}‸data: {ip-masq-b: "{}"}\n`, 'duplicate-key'],
  [
    'merge keys, which may add anything',
    `${configMap('ip-masq-a: "{}"', '‸<<: {ip-masq-b: "{}"}')}‸<<: {binaryData: {}}\n---\n{x: &x {kind: ConfigMap}, ‸<<: *x, data: {ip-masq-c: ""}}\n---\n{kind: List, ‸<<: {items: []}}\n`,
    MERGE,
    MERGE,
    MERGE,
    MERGE,
  ],
  [
    'names that are close',
    configMap('‸ip-masq.yaml: |', '  x: 1', '‸ip-masq: ""'),
    'not-a-config-file: the key "ip-masq.yaml" is not read: the name of a config file begins with ip-masq-; rename it',
    'not-a-config-file: the key "ip-masq" ',
  ],
  [
    'the key of older agents',
    configMap('config: "{}"').replace('name: ', 'name: ‸'),
    'not-a-config-file: no key of ConfigMap "ip-masq" begins with ip-masq-: nothing of it is read; leave the key, which older agents read; mount it with items: [{key: config, path: ip-masq-agent}], and check it in one file with the workload of that volume',
  ],
  [
    'another key',
    configMap('agent.yaml: "{}"').replace('name: ', 'name: ‸'),
    'not-a-config-file: no key of ConfigMap "ip-masq" begins with ip-masq-: nothing of it is read; rename the key; if a volume mounts it under another name, check it in one file with the workload of that volume',
  ],
  [
    'the config itself below data',
    configMap('‸nonMasqueradeCIDRs: [10.0.0.0/8]', 'resyncInterval: 60s'),
    'shape: "nonMasqueradeCIDRs" stands directly below "data:", where the name of the config file belongs; write "ip-masq-…: |" above it, and indent the config further',
  ],
  [
    // The same in Terraform: hashicorp/terraform-provider-kubernetes#169.
    'one of its scalars below data, in JSON and in another case',
    '{"apiVersion": "v1", "kind": "ConfigMap", "data": {‸"ResyncInterval": "60s"}}',
    'shape: "ResyncInterval" stands directly below "data:"',
  ],
  [
    'a config file beside an empty data',
    `${configMap()}‸ip-masq-a: |\n  masqLinkLocal: true\n`,
    'shape: "ip-masq-a" stands beside "data:", not below it; indent it further than "data:", with all that follows',
  ],
  [
    'the config itself beside data',
    `${configMap()}‸masqLinkLocal: true\n`,
    'shape: "masqLinkLocal" stands beside "data:"',
  ],
  [
    'a path that is not read, in the workload',
    `${configMap('ip-masq-config: "{}"')}---\n${daemonSet('{name: ip-masq, items: [{key: ip-masq-config, path: ‸ip-masq.yaml}]}')}`,
    'not-a-config-file: the file "ip-masq.yaml" is not read: the name of a config file begins with ip-masq-; write another path for the key',
  ],
  [
    'a path in a folder, which the agent does not look into',
    `${configMap('ip-masq-config: "{}"')}---\n${daemonSet('{name: ip-masq, items: [{key: ip-masq-config, path: ‸x/ip-masq-config}]}')}`,
    'not-a-config-file: the file "x/ip-masq-config" is not read',
  ],
  [
    'a volume of another ConfigMap, in the workload',
    `${configMap('ip-masq-a: "{}"')}---\n${daemonSet('{name: ‸ip-masq-config, optional: true}')}`,
    'not-a-config-file: the volume mounts the ConfigMap "ip-masq-config", but the one here is "ip-masq"; use one name in both',
  ],
  [
    'a volume of another ConfigMap, for the key of older agents',
    `${daemonSet('{name: ‸ip-masq-agent, items: [{key: config, path: ip-masq-agent}]}')}---\n${configMap('config: "{}"')}`,
    'not-a-config-file: the volume mounts the ConfigMap "ip-masq-agent", but the one here is "ip-masq"',
  ],
  [
    'binaryData that is not base64',
    `apiVersion: v1\nkind: ConfigMap\nbinaryData:\n  ip-masq-a: ‸abc\n  ip-masq-b: |\n    ‸a b=\n  ip-masq-c: ‸"===="\n`,
    'encoding: the value of "ip-masq-a" in binaryData is not base64; encode it, or move it to data',
    'encoding: the value of "ip-masq-b"',
    'encoding: the value of "ip-masq-c"',
  ],
  [
    'binaryData that is not a config',
    `apiVersion: v1\nkind: ConfigMap\nbinaryData: {ip-masq-a: ‸//4=, ip-masq-b: ‸gICA, ip-masq-c: ‸eDogMQo=}\n---\napiVersion: v1\nkind: ConfigMap\nbinaryData:\n  ip-masq-d: |\n    ‸Cgp4OiAxCg==\n`,
    'encoding: "ip-masq-a" is UTF-16, not UTF-8; save it as UTF-8',
    'encoding: "ip-masq-b" has a byte that is not UTF-8',
    'unknown-key',
    'unknown-key',
  ],
  ['a NUL', configMap('ip-masq-a: ‸"\\0"'), 'encoding: "ip-masq-a" has a NUL byte'],
  [
    'a text that is larger than any ConfigMap',
    configMap('ip-masq-a: |', `  ‸#${'é'.repeat(524_288)}`),
    'unreadable: "ip-masq-a" is larger than 1 MiB (1048578 bytes); split it, or use wider CIDRs',
  ],
  [
    'a document that is not YAML, among others',
    `${CONFIG_MAP}---\nkind: "{{ .Values.kind }}‸\n---\n${CONFIG_MAP.replace('ip-masq-a', 'ip-masq-b')}`,
    'cidr',
    'syntax: is not valid YAML: deficient indentation; if "{{" is a placeholder, render the template first, such as with helm template, terraform or envsubst; else close',
    'cidr',
  ],
  [
    'placeholders of a template, of which only the first of each ConfigMap is said',
    [
      configMap(
        'ip-masq-a: |',
        '  # {{ a comment }}',
        '  masqLinkLocal:',
        '  ‸{{- range .x }}',
        '  {{- end }}',
      ),
      configMap('ip-masq-b: ‸{{ toYaml .x }}', 'ip-masq-c: {{ .y }}'),
      configMap('ip-masq-d: ""', '‸{{ .key }}: |', '  masqLinkLocal: true'),
      configMap('ip-masq-e: ‸"{{ .x }}"', 'x: "{{ .x }}"'),
      configMap('ip-masq-f: ""').replace('name: ip-masq', 'name: ‸{{ .name }}'),
    ].join('---\n'),
    ...Array<string>(5).fill('syntax: has "{{", a placeholder of a template; render the template first'),
  ],
  ['a manifest that is cut off', `${CONFIG_MAP.replace('‸', '')}binaryData: {‸\n\n`, 'syntax'],
  [
    'a directive, which kubectl refuses, and a document that is not YAML',
    `# hello\n%YAML 1.1‸\n---\n${CONFIG_MAP}---\napiVersion: ‸@\n`,
    'syntax',
    'cidr',
    'syntax',
  ],
  [
    'documents that kubectl does not read: behind "..." and behind another end of a line than a line feed',
    `{}\n...\n${BEHIND}---\nkind: List\n...\r---\r${BEHIND}---\n{}\n...\n# nothing\n`,
    'syntax: is a document behind "...", or behind "---" in a line that does not end in a line feed: kubectl does not read it; put it below a line with "---" alone',
    'syntax: is a document',
  ],
  [
    'text behind the mark of a document',
    `${CONFIG_MAP}--- ‸{apiVersion: v1}\n---\t# a comment\n{}\n`,
    'cidr',
    'syntax: has text behind "---", which kubectl refuses; begin a line with it',
  ],
  [
    'line breaks for kubectl alone, in what is about the agent',
    `${configMap('ip-masq-a: |', '  masqLinkLocal: true # x‸\u2028  nonMasqueradeCIDRs: []')}---\nkind: Other\nx: "\u2028" # \u0085\n`,
    'syntax: has the invisible character U+2028, which ends a line for kubectl and for other agents; remove it, or write a line feed',
  ],
  [
    'a tag that makes kubectl read another text',
    configMap('ip-masq-a: ‸!!binary bWFzcUxpbmtMb2NhbDogdHJ1ZQo='),
    'syntax: has a YAML tag that a config does not use; remove the word that begins with "!"',
  ],
  [
    'a blank line behind an escaped line break',
    configMap('ip-masq-a: "masqLinkLocal:‸\\', '', '  true"'),
    'syntax: has a blank line behind a backslash that ends a line: kubectl reads a line break',
  ],
  [
    'two objects without a mark between them, of which kubectl takes the last values',
    `${CONFIG_MAP.replace('name: ip-masq', '{name: x, ‸name: ip-masq}')}‸apiVersion: v1\n‸kind: Secret\n`,
    'duplicate-key',
    'cidr',
    'duplicate-key: the key "apiVersion" is set twice (the other: m.yaml:1:1); keep one; if two objects stand here, write a line "---" between them',
    'duplicate-key',
  ],
];
