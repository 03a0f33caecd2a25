import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type DaemonSet, EVERY_TAINT, isAgent, ofKind, theDaemonSet } from './documents.ts';
import { KUBERNETES } from './kustomize.ts';
import { readPolicy } from './policy.ts';
import { objectsOf } from './support.ts';

const NAME = 'ip-masq-agent-node-readiness';
const CLAIM = 'authentication.kubernetes.io/node-name';
const CONDITION = 'ip-masq-agent/Ready';

const objects = await objectsOf('base', ['components/node-readiness']);
const agent = theDaemonSet(objects);
const [reporter = assert.fail('no reporter')] = ofKind('DaemonSet', objects).filter((one) => !isAgent(one));
const [rule = assert.fail('no rule')] = ofKind('NodeReadinessRule', objects);
const podOf = ({ spec }: DaemonSet) => spec.template.spec;
const [container = assert.fail('no container')] = podOf(reporter).containers;

describe('the component node-readiness', () => {
  it('has a rule that looks at a node only until its agent is Ready for the first time', () => {
    assert.equal(rule.spec.enforcementMode, 'bootstrap-only');
    assert.deepEqual(rule.spec.conditions, [{ type: CONDITION, requiredStatus: 'True' }]);
    // The controller refuses a key of another domain.
    assert.match(rule.spec.taint.key, /^readiness\.k8s\.io\/[\w.-]{1,63}$/);
    assert.equal(rule.spec.taint.effect, 'NoSchedule');
  });

  it('closes only nodes that have both a reporter and an agent', () => {
    const { matchLabels, matchExpressions } = rule.spec.nodeSelector;
    const expressions = (daemonSet: DaemonSet) =>
      podOf(daemonSet).affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        .nodeSelectorTerms;
    assert.deepEqual(matchLabels, podOf(reporter).nodeSelector);
    assert.deepEqual([{ matchExpressions }], expressions(reporter));
    assert.deepEqual(matchLabels, podOf(agent).nodeSelector);
    // Nodes of a canary have the agent of the canary.
    const [canary, ...others] = expressions(agent)?.[0]?.matchExpressions ?? [];
    assert.deepEqual(canary, { key: 'ip-masq-agent/channel', operator: 'NotIn', values: ['canary'] });
    assert.deepEqual(others, matchExpressions);
  });

  it('starts agent and reporter whatever taints a node has', () => {
    for (const daemonSet of [agent, reporter])
      assert.deepEqual(podOf(daemonSet).tolerations, EVERY_TAINT, daemonSet.metadata.name);
  });

  it('asks where the agent answers, and listens on loopback only', () => {
    const values = Object.fromEntries((container.env ?? []).map(({ name, value }) => [name, value]));
    const { httpGet } = podOf(agent).containers[0]?.readinessProbe ?? assert.fail('no probe');
    const port = podOf(agent).containers[0]?.ports?.find(({ name }) => name === httpGet.port);
    assert.equal(values['CHECK_ENDPOINT'], `http://${httpGet.host}:${port?.containerPort}${httpGet.path}`);
    assert.equal(values['CONDITION_TYPE'], CONDITION);
    assert.match(values['METRICS_BIND_ADDRESS'] ?? '', /^127\.0\.0\.1:/);
    assert.equal(podOf(reporter).hostNetwork, true);
  });

  it('gives the reporter no right but the two of its account', () => {
    const [role, ...others] = ofKind('ClusterRole', objects);
    assert.deepEqual(role?.rules, [
      { apiGroups: [''], resources: ['nodes'], verbs: ['get'] },
      { apiGroups: [''], resources: ['nodes/status'], verbs: ['update'] },
    ]);
    assert.deepEqual(others, []);
    const [binding] = ofKind('ClusterRoleBinding', objects);
    assert.deepEqual(binding?.subjects, [{ kind: 'ServiceAccount', name: NAME, namespace: 'kube-system' }]);
    assert.equal(binding?.roleRef.name, NAME);
    assert.equal(podOf(reporter).serviceAccountName, NAME);
    assert.equal(podOf(agent).automountServiceAccountToken, false, 'the agent has no token');
    assert.deepEqual(container.securityContext, {
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    assert.deepEqual(podOf(reporter).securityContext, {
      runAsNonRoot: true,
      runAsUser: 65532,
      runAsGroup: 65532,
      seccompProfile: { type: 'RuntimeDefault' },
    });
  });

  it('has a taint that the alert knows', () => {
    const rules = readFileSync(join(KUBERNETES, '../prometheus/rules.yaml'), 'utf8');
    assert.ok(rules.includes(`kube_node_spec_taint{key="${rule.spec.taint.key}"}`));
  });
});

describe("the policy for the reporter's writes", () => {
  const policy = readPolicy('components/node-readiness/policy.yaml');

  it('refuses, also what it cannot evaluate', () => {
    assert.deepEqual([policy.actions, policy.failurePolicy], [['Deny'], 'Fail']);
  });

  const before = node();
  const reported = node({ status: { conditions: [...conditionsOf('True'), condition(CONDITION, 'True')] } });

  for (const [what, after, from] of [
    ['its first report', reported, 'a'],
    ['a report that nothing has changed', before, 'a'],
    ['a write of another account to another node', node({ status: { capacity: { cpu: '9' } } }), undefined],
  ] as const)
    it(`lets pass ${what}`, () => assert.deepEqual(review(after, from), []));

  it('knows the account in any namespace, with any prefix and suffix', () => {
    for (const name of [NAME, `x-${NAME}`, `${NAME}-edge`])
      assert.deepEqual(review(reported, 'b', `system:serviceaccount:node-network:${name}`).length, 1);
    assert.deepEqual(review(reported, 'b', 'system:serviceaccount:node-network:ip-masq-agent'), []);
  });

  for (const [what, after, from, said] of [
    ['the condition of another node', reported, 'b', /own node only, and this is that of a$/],
    ['a token that is bound to no node', reported, null, /own node only/],
    ['a label', node({ metadata: { name: 'a', labels: { x: 'y' } } }), 'a', /metadata: labels$/],
    [
      'an annotation on top',
      node({ metadata: { name: 'a', labels: {}, annotations: { x: '' } } }),
      'a',
      /metadata: annotations$/,
    ],
    ['labels that are gone', node({ metadata: { name: 'a' } }), 'a', /metadata: labels$/],
    ['an address', node({ status: { addresses: [{ type: 'InternalIP' }] } }), 'a', /status: addresses$/],
    ['the capacity', node({ status: { capacity: { cpu: '9' } } }), 'a', /status: capacity$/],
    ["the port of the node's kubelet", node({ status: { daemonEndpoints: {} } }), 'a', /daemonEndpoints$/],
    [
      'a condition of kubelet',
      node({ status: { conditions: conditionsOf('False') } }),
      'a',
      /changes others$/,
    ],
    [
      'the condition of another controller',
      node({ status: { conditions: [...conditionsOf('True'), condition('x/Ready', 'True')] } }),
      'a',
      /changes others$/,
    ],
    ['conditions that are gone', node({ status: { conditions: [] } }), 'a', /changes others$/],
  ] as const)
    it(`refuses ${what}`, () => assert.match(review(after, from).join('\n'), said));

  /** @param from the node in the token; null for a token without one, undefined for another account */
  function review(
    after: object,
    from: string | null | undefined,
    username = from === undefined ? 'system:node:a' : `system:serviceaccount:kube-system:${NAME}`,
  ): readonly string[] {
    const extra = from == null ? {} : { extra: { [CLAIM]: [from] } };
    return policy.review(after, {
      oldObject: before,
      request: { name: 'a', userInfo: { username, ...extra } },
    });
  }
});

function node(changes: { readonly metadata?: object; readonly status?: object } = {}): object {
  return {
    metadata: changes.metadata ?? { name: 'a', labels: {} },
    status: {
      conditions: conditionsOf('True'),
      capacity: { cpu: '2' },
      allocatable: { cpu: '2' },
      ...changes.status,
    },
  };
}

function conditionsOf(ready: string): readonly object[] {
  return [condition('MemoryPressure', 'False'), condition('Ready', ready)];
}

function condition(type: string, status: string): object {
  return { type, status, reason: 'Test' };
}
