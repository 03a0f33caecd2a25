import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { claimsIn, type KubeObject, nodeClaims, poolClaims } from '../../../lib/ranges/claims.ts';
import { formatLastUse, parseLastUse } from '../../../lib/ranges/last-use.ts';
import { metricsText } from '../../../lib/ranges/metrics.ts';
import { configMapOf, editorsOf, isWritten, type Objects, planFor } from '../../../lib/ranges/plan.ts';
import { claims, NOW, OPTIONS, uses } from './support.ts';

const LAST_USE = 'ip-masq-ranges/last-used';

function configMap(name: string, data: Readonly<Record<string, string>>, annotations = {}): KubeObject {
  return { metadata: { name, namespace: 'kube-system', annotations }, data };
}

const OPERATOR = configMap('ip-masq-operator', {
  'ip-masq-operator': 'nonMasqueradeCIDRs: [192.168.0.0/16]\n',
});
const OBJECTS: Objects = {
  claims: claims('node', '10.244.0.0/24'),
  own: undefined,
  others: [OPERATOR],
  failures: [],
};

describe('planFor', () => {
  for (const [name, change, reason] of [
    ['writes beside another config file', {}, undefined],
    ['refuses if anything could not be read', { failures: ['GET /api/v1/nodes: 403'] }, 'unreadable'],
    [
      'refuses a ConfigMap that it has not written',
      { own: configMap('ip-masq-ranges', { a: 'b' }) },
      'not-ours',
    ],
    [
      'refuses a ConfigMap with an annotation that it has not written',
      { own: configMap('ip-masq-ranges', {}, { [LAST_USE]: '{"now":["evil"]}' }) },
      'not-ours',
    ],
    [
      'takes its own ConfigMap',
      { own: configMap('ip-masq-ranges', {}, { [LAST_USE]: '{"now":[]}' }) },
      undefined,
    ],
    ['refuses the first config file', { others: [] }, 'first-list'],
    [
      'counts only ConfigMaps with config files',
      { others: [configMap('x', { dashboard: '{}' })] },
      'first-list',
    ],
    [
      'refuses what another config file contradicts',
      { others: [configMap('x', { 'ip-masq-x': 'masqueradeCIDRs: [10.244.0.0/24]\n' })] },
      'conflict',
    ],
    [
      'refuses beside a broken config file',
      { others: [configMap('x', { 'ip-masq-x': 'a: [' })] },
      'conflict',
    ],
  ] as const)
    it(name, () =>
      assert.equal(planFor({ ...OBJECTS, ...change }, [], NOW, OPTIONS).refusal?.reason, reason),
    );

  it('names the place of a conflict in the ConfigMap of its owner', () => {
    const others = [configMap('x', { 'ip-masq-x': 'masqueradeCIDRs: [10.244.0.0/24]\n' })];
    const { refusal } = planFor({ ...OBJECTS, others }, [], NOW, OPTIONS);
    assert.match(refusal?.message ?? '', /ConfigMap x, ip-masq-x:1:19/);
  });

  it('believes what it remembers, if its annotation is gone', () => {
    const own = { metadata: { name: 'ip-masq-ranges', managedFields: [{ manager: 'ip-masq-ranges' }] } };
    assert.equal(planFor({ ...OBJECTS, own }, [], NOW, OPTIONS).refusal?.reason, 'not-ours');
    const plan = planFor({ ...OBJECTS, own }, uses('now 10.244.1.0/24'), NOW, OPTIONS);
    assert.deepEqual(
      plan.entries.map(({ prefix: { text } }) => text),
      ['10.244.0.0/23'],
    );
  });
});

describe('the ConfigMap', () => {
  it('is a config file with a comment for each CIDR, and the latest use of each', () => {
    const own = configMap('ip-masq-ranges', {}, { [LAST_USE]: '{"2026-11-29T11:53:00Z":["10.245.0.0/16"]}' });
    const plan = planFor({ ...OBJECTS, own }, uses('8 10.245.0.0/16'), NOW, OPTIONS);
    const { metadata, data } = configMapOf(plan, 'kube-system', OPTIONS);
    assert.equal(
      data['ip-masq-ranges'],
      '# Written by ip-masq-ranges, which puts edits back.\nnonMasqueradeCIDRs:\n  - 10.244.0.0/24 # Node n0\n  - 10.245.0.0/16 # unused since 2026-11-29T11:53:00Z\n',
    );
    assert.equal(
      metadata.annotations[LAST_USE],
      '{"now":["10.244.0.0/24"],"2026-11-29T11:53:00Z":["10.245.0.0/16"]}',
    );
  });

  it('sets cidrLimit if it needs it', () => {
    const ranges = Array.from({ length: 65 }, (_, index) => `10.0.${2 * index}.0/24`);
    const plan = planFor({ ...OBJECTS, claims: claims('node', ranges.join(' ')) }, [], NOW, OPTIONS);
    assert.equal(plan.refusal, undefined);
    assert.match(configMapOf(plan, 'kube-system', OPTIONS).data['ip-masq-ranges'] ?? '', /^cidrLimit: 65$/m);
  });

  it('is written again if anything in it differs', () => {
    const wanted = configMapOf(planFor(OBJECTS, [], NOW, OPTIONS), 'kube-system', OPTIONS);
    assert.ok(isWritten(wanted, wanted));
    assert.ok(!isWritten(wanted, undefined));
    assert.ok(!isWritten(wanted, { ...wanted, data: { 'ip-masq-ranges': 'x' } }));
    assert.ok(!isWritten(wanted, { ...wanted, metadata: { ...wanted.metadata, annotations: {} } }));
  });

  it('has editors: other field managers of its key and its annotation, but not of the one that accepts', () => {
    const fields = (name: string) => ({ 'f:data': { [`f:${name}`]: {} } });
    const managedFields = [
      { manager: 'ip-masq-ranges', fieldsV1: fields('ip-masq-ranges') },
      { manager: 'kubectl-edit', fieldsV1: fields('ip-masq-ranges') },
      { manager: 'argocd', fieldsV1: fields(LAST_USE) },
      { manager: 'a-person', fieldsV1: fields('ip-masq-ranges/accept') },
    ];
    assert.deepEqual(editorsOf({ metadata: { name: 'x', managedFields } }), ['kubectl-edit', 'argocd']);
    assert.deepEqual(editorsOf(undefined), []);
  });
});

describe('what was used when', () => {
  it('is read as it was written', () => {
    const text = '{"now":["10.0.0.0/8"],"2026-11-29T11:53:00Z":["fd00::/8"]}';
    assert.equal(formatLastUse(parseLastUse(text) ?? []), text);
  });

  for (const text of [
    '',
    '[]x',
    'null',
    '{"now":"10.0.0.0/8"}',
    '{"now":["10.0.0.1/8"]}',
    '{"soon":[]}',
    '{"now":[7]}',
  ])
    it(`is not ${text || 'empty'}`, () => assert.equal(parseLastUse(text), undefined));
});

describe('claims', () => {
  const kubeadmOf = (data: KubeObject['data'] & object) =>
    claimsIn('ClusterConfiguration', ['networking', 'podSubnet'])(configMap('x', data));
  const flannelOf = (text: string) =>
    claimsIn('net-conf.json', ['Network'], ['IPv6Network'])(configMap('x', { 'net-conf.json': text }));
  const nodeOf = (rest: object) => nodeClaims({ metadata: { name: 'a' }, ...rest });
  const poolOf = (spec?: object) => poolClaims({ metadata: { name: 'a' }, ...(spec && { spec }) });
  const addresses = [
    { type: 'InternalIP', address: '10.0.0.1' },
    { type: 'ExternalIP', address: '8.8.8.8' },
    { type: 'InternalIP', address: 'fd00::1' },
    { type: 'InternalIP', address: 'evil' },
  ];

  for (const [name, found, expected] of [
    ['of a Node', nodeOf({ spec: { podCIDRs: ['10.0.0.0/24', 'fd00::/64'] } }), '10.0.0.0/24 fd00::/64'],
    ['of a Node with addresses', nodeOf({ status: { addresses } }), '10.0.0.1/32 fd00::1/128 evil/32'],
    ['of a Node that is new', nodeOf({}), ''],
    ['of a pool', poolOf({ cidr: '10.0.0.0/8' }), '10.0.0.0/8'],
    ['of a pool for tunnels', poolOf({ cidr: '10.0.0.0/8', allowedUses: ['Tunnel'] }), '10.0.0.0/8'],
    ['of a pool for load balancers', poolOf({ cidr: '10.0.0.0/8', allowedUses: ['LoadBalancer'] }), ''],
    ['of a pool that says nothing', poolOf(), 'undefined'],
    [
      'of kubeadm',
      kubeadmOf({ ClusterConfiguration: 'networking: {podSubnet: "10.0.0.0/8, fd00::/56"}' }),
      '10.0.0.0/8 fd00::/56',
    ],
    ['of kubeadm without a subnet', kubeadmOf({ ClusterConfiguration: 'networking: {podSubnet: ""}' }), ''],
    ['of kubeadm without a configuration', kubeadmOf({}), ''],
    [
      'of flannel',
      flannelOf('{\n\t"Network": "10.0.0.0/8", "IPv6Network": "fd00::/8"\n}'),
      '10.0.0.0/8 fd00::/8',
    ],
    ['of flannel with one family', flannelOf('{"Network": "10.0.0.0/8"}'), '10.0.0.0/8'],
  ] as const)
    it(name, () => assert.equal(found.map(({ text }) => text).join(' '), expected));

  it('fail for a ConfigMap that is broken, which must not mean that it declares nothing', () =>
    assert.throws(() => flannelOf('{"Network": '), /net-conf\.json of ConfigMap kube-system\/x/));
});

it('the metrics name the reason for which nothing is written', () => {
  const state = { refusal: { reason: 'conflict', message: '' }, use: [], rejected: 2, writes: 3 } as const;
  const text = metricsText(state, 'v1');
  assert.match(text, /^ip_masq_ranges_writing_stopped\{reason="conflict"\} 1$/m);
  assert.match(text, /^ip_masq_ranges_writing_stopped\{reason="too-many"\} 0$/m);
  assert.match(text, /^ip_masq_ranges_rejected_ranges 2$/m);
  assert.match(text, /^ip_masq_ranges_build_info\{version="v1"\} 1$/m);
});
