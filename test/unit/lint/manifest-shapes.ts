import { type Case, CONFIG_MAP, configMap, HOST_BITS } from './manifest-support.ts';

// What kubectl 1.32 prints: a space before a line feed makes it quote the text.
const GET_YAML = `apiVersion: v1
data:
  ip-masq-a: |
    # é 😀
    nonMasqueradeCIDRs:
      - ‸10.0.0.1/8
  ip-masq-b: "nonMasqueradeCIDRs:\\n  - 10.2.0.0/16 \\n  - ‸10.0.0.1/8\\nmasqLinkLocal: true\\nresyncInterval:
    60s\\nmasqueradeCIDRs:\\n\\t\\n\\
    \\ - ‸10.0.0.1/8 # \\"why\\"\\n"
  ip-masq-c: '{"nonMasqueradeCIDRs": [‸"10.0.0.1/8"]}'
  ip-masq-d: >-
    nonMasqueradeCIDRs:
    [ 10.2.0.0/16,
    ‸10.0.0.1/8 ]
immutable: true
kind: ConfigMap
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"apiVersion":"v1","data":{"ip-masq-a":"nonMasqueradeCIDRs: [10.0.0.1/8]"},"kind":"ConfigMap","metadata":{"name":"ip-masq"}}
  creationTimestamp: "2026-01-31T23:59:59Z"
  managedFields:
  - apiVersion: v1
    fieldsType: FieldsV1
    fieldsV1:
      f:data:
        .: {}
        f:ip-masq-a: {}
    manager: kubectl-client-side-apply
    operation: Update
    time: "2026-01-31T23:59:59Z"
  name: ip-masq
  namespace: kube-system
  resourceVersion: "4711"
  uid: 00000000-0000-0000-0000-000000000000
`;

const GET_JSON = `{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "data": {
                "ip-masq-a": "nonMasqueradeCIDRs:\\n  - 10.2.0.0/16\\n  - ‸10.0.0.1/8\\n",
                "ip-masq-b": "{\\"nonMasqueradeCIDRs\\": [‸\\"10.0.0.1\\/8\\"]}",
                "ip-masq-c": "# \\u00e9 \\ud83d\\ude00\\r\\n\\u006eonMasqueradeCIDRs: [‸\\u003110.0.0.1/8]"
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
  template: {spec: {volumes: [{configMap: {name: ip-masq}}]}}
...
---
${CONFIG_MAP.replace('ip-masq-a', '"ip-masq-b"')}
# The end
`;

/** What a manifest may be or hold; all with mistakes in its configs. */
export const SHAPES: readonly Case[] = [
  ['what `kubectl get -o yaml` prints', GET_YAML, ...Array<string>(5).fill(HOST_BITS)],
  [
    'what `kubectl get -o json` prints',
    GET_JSON,
    HOST_BITS,
    HOST_BITS,
    HOST_BITS.replaceAll('10.0.0.1', '110.0.0.1').replace('write 10.', 'write 110.'),
  ],
  ['what helm and kustomize print', HELM, HOST_BITS, HOST_BITS],
  ['lines that end as on Windows', CONFIG_MAP.replaceAll('\n', '\r\n'), HOST_BITS],
  [
    'a list whose items do not say their kind',
    `apiVersion: v1\nkind: ConfigMapList\nitems:\n- data:\n    ip-masq-a: |-\n      masqueradeCIDRs: [‸10.0.0.1/8]\n- data: {"ip-masq-b": 'masqueradeCIDRs: [‸"10.0.0.1/8"]'}\n`,
    HOST_BITS,
    HOST_BITS,
  ],
  [
    'lists in lists',
    `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{kind: ConfigMap, data: {ip-masq-a: "masqueradeCIDRs: [‸10.0.0.1/8]"}}]}]}`,
    HOST_BITS,
  ],
  [
    'a block that says how far it is indented',
    configMap('ip-masq-a: |2-', '  masqueradeCIDRs: [‸10.0.0.1/8]'),
    HOST_BITS,
  ],
  [
    'quotes in a block',
    configMap('ip-masq-a: |', '  "nonMasqueradeCIDRs":', "  - '10.2.0.0/16'", '  - ‸"10.0.0.1/8"'),
    HOST_BITS,
  ],
  [
    'a plain scalar of several lines',
    configMap('ip-masq-a: {', '  nonMasqueradeCIDRs: []', '  }', 'ip-masq-b:', '  masqueradeCIDRs')
      .replace('ip-masq-a: {', 'ip-masq-a: ‸{')
      .replace('ip-masq-b:\n    ', 'ip-masq-b:\n    ‸'),
    'error: the value of "ip-masq-a" must be text, but is a map; write "ip-masq-a: |" and the config below, indented',
    'error: a config must be a map of keys, but this is the text "masqueradeCIDRs"; write keys such as "nonMasqueradeCIDRs:"',
  ],
  [
    'a value that is an alias, at the anchor',
    `${configMap('x: &text |', '  masqueradeCIDRs: [‸10.0.0.1/8]', 'ip-masq-a: *text')}`,
    HOST_BITS,
  ],
  [
    'a value with a tag and an anchor',
    configMap('ip-masq-a: &a !!str "masqueradeCIDRs: [‸10.0.0.1/8]"'),
    HOST_BITS,
  ],
  [
    'data from a merge key, unless it is set itself',
    `x: &more {ip-masq-a: "masqueradeCIDRs: [‸10.0.0.1/8]", ip-masq-b: 5}\n${configMap('<<: *more', 'ip-masq-b: "masqLinkLocal: ‸5"')}`,
    HOST_BITS,
    'error: masqLinkLocal must be true or false, but is the number 5; write true or false, without quotes',
  ],
  [
    'a definition nested far deeper than a config',
    `${CONFIG_MAP}---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: ${'{properties: '.repeat(60)}{}${'}'.repeat(60)}\n`,
    HOST_BITS,
  ],
  [
    'a byte order mark in a value',
    configMap('ip-masq-a: "\\ufeffmasqueradeCIDRs: [‸10.0.0.1/8]"'),
    HOST_BITS,
  ],
  [
    'a tab in the indentation of a config',
    configMap('ip-masq-a: |', '  masqueradeCIDRs:', '  ‸\t- 10.0.0.0/8'),
    'error: is not valid YAML: tab characters must not be used in indentation; indent with spaces',
  ],
  [
    'a bracket that is not closed',
    configMap('ip-masq-a: |', '  masqueradeCIDRs: [‸', '', 'z: ""'),
    'error: is not valid YAML: deficient indentation; close the bracket or quote; the file may be cut off',
  ],
  [
    'keys such as __proto__',
    configMap('__proto__: ""', 'constructor: ""', 'ip-masq-__proto__: |', '  ‸__proto__: 1'),
    'error: unknown key "__proto__"; known keys: nonMasqueradeCIDRs, masqueradeCIDRs, masqLinkLocal, masqLinkLocalIPv6, resyncInterval, cidrLimit',
  ],
];
