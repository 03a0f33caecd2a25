import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ofKind } from './documents.ts';
import { KUBERNETES } from './kustomize.ts';
import { readPolicy } from './policy.ts';
import { objectsOf } from './support.ts';

const NAME = 'ip-masq-agent-node-readiness';
const CLAIM = 'authentication.kubernetes.io/node-name';
const CONDITION = 'ip-masq-agent/Ready';

it('the taint of the component node-readiness is one that the alert knows', async () => {
  const [rule] = ofKind('NodeReadinessRule', await objectsOf('base', ['components/node-readiness']));
  const rules = readFileSync(join(KUBERNETES, '../prometheus/rules.yaml'), 'utf8');
  assert.ok(rules.includes(`kube_node_spec_taint{key="${rule?.spec.taint.key}"}`));
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
