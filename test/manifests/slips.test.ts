import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import { audit } from './audit.ts';
import type { KubernetesObject } from './documents.ts';
import { schemaProblems } from './schema.ts';
import { objectsOf } from './support.ts';

/** What others got wrong, or easily may: a change of the text of the base, and what is then said. */
const SLIPS: readonly (readonly [name: string, from: string, to: string, ...said: readonly RegExp[]])[] = [
  [
    'fields of a configMap: indented as its siblings',
    '"configMap":{"name":"ip-masq-cloud","optional":true,"items":[{"key":"ip-masq-cloud","path":"ip-masq-cloud"}]}',
    '"configMap":null,"name":"ip-masq-cloud","optional":true,"items":[{"key":"ip-masq-cloud","path":"ip-masq-cloud"}]',
    /sources\/0\/name: unknown field/,
    /sources\/0\/optional: unknown field/,
    /sources\/0\/items: unknown field/,
  ],
  ['a decimal mode', '"defaultMode":292', '"defaultMode":444', /mode 444 is 674 in octal/],
  [
    'the mode of an item',
    '"path":"ip-masq-cloud"',
    '"path":"ip-masq-cloud","mode":444',
    /mode 444 is 674 in octal/,
  ],
  ['a mode in quotes', '"defaultMode":292', '"defaultMode":"0444"', /must be integer/],
  [
    'a volume that asks for another ConfigMap',
    '"configMap":{"name":"ip-masq-operator","optional":false',
    '"configMap":{"name":"ip-masq-operators","optional":true',
    /there is no ConfigMap ip-masq-operators/,
    /ConfigMap ip-masq-operator is not mounted/,
  ],
  [
    'an item of another key',
    '"key":"ip-masq-operator"',
    '"key":"config"',
    /no key config/,
    /key ip-masq-operator .* is not mounted/,
  ],
  ['a file that the agent does not read', '"path":"ip-masq-cloud"', '"path":"cloud"', /reads no file cloud/],
  ['two files of one name', '"path":"ip-masq-cloud"', '"path":"ip-masq-operator"', /the same path/],
  [
    'a ConfigMap that has to be there',
    '"name":"ip-masq-cloud","optional":true',
    '"name":"ip-masq-cloud","optional":false',
    /ip-masq-cloud is not optional/,
  ],
  [
    'a ConfigMap that may be deleted',
    '"name":"ip-masq-operator","optional":false',
    '"name":"ip-masq-operator","optional":true',
    /ip-masq-operator is optional/,
  ],
  ['no port of the host', ',"hostPort":9614', '', /port 9614 is not said to be taken/],
  [
    'a port that nobody listens on',
    '"containerPort":9614,"hostPort":9614',
    '"containerPort":9616,"hostPort":9616',
    /port 9614 is not among/,
    /on which nobody listens/,
    /on which nobody listens/,
  ],
  ['no network of the node', '"hostNetwork":true', '"hostNetwork":false', /not in the network of the node/],
  [
    'a probe from outside of loopback',
    '"readinessProbe":{"httpGet":{"host":"127.0.0.1",',
    '"readinessProbe":{"httpGet":{',
    /readinessProbe asks an address/,
  ],
  ['an unknown flag', '--v=2', '--enable-ip6', /unknown flag "--enable-ip6": did you mean --enable-ipv6/],
  ['a bad value of a flag', '--v=2', '--backend=nft', /write auto or iptables or nftables/],
  ['a flag of another command', '--v=2', '--flatten', /run does not take --flatten/],
  ['host bits in a config', '10.0.0.0/8', '10.0.0.1/8', /write 10\.0\.0\.0\/8 for the whole network/],
  ['IPv6 where it is not enabled', '10.0.0.0/8', 'fc00::/7', /--enable-ipv6/],
  [
    'no service account',
    '"serviceAccountName":"ip-masq-agent"',
    '"serviceAccountName":"ip-masq"',
    /no service account ip-masq/,
  ],
  [
    'a selector of other pods',
    '"matchLabels":{"app.kubernetes.io/name":"ip-masq-agent"}',
    '"matchLabels":{"k8s-app":"ip-masq-agent"}',
    /selects no pod of its own/,
  ],
  ['another namespace', '"namespace":"kube-system"', '"namespace":"default"', /not in kube-system/],
  [
    'a volume that nobody mounts',
    '{"name":"xtables-lock","mountPath":"/run/xtables.lock"}',
    '{"name":"config","mountPath":"/x"}',
    /nobody mounts volume xtables-lock/,
  ],
  ['a field that Kubernetes does not know', '"dnsPolicy"', '"dnsPolice"', /dnsPolice: unknown field/],
];

describe('a slip', () => {
  for (const [name, from, to, ...said] of SLIPS)
    it(`is found: ${name}`, async () => {
      const text = canonical(await objectsOf('base'));
      assert.ok(text.includes(from), from);
      const problems = audit(load(text.replace(from, () => to)) as KubernetesObject[]);
      assert.equal(problems.length, said.length, problems.join('\n'));
      for (const [index, pattern] of said.entries()) assert.match(problems[index] ?? '', pattern);
    });

  it('is found: a kind of object that has no schema', () => {
    assert.deepEqual(schemaProblems({ apiVersion: 'v1', kind: 'ConfigMaps' }), [
      'no schema of v1 ConfigMaps',
    ]);
  });

  it('is found: metrics on loopback for Prometheus', async () => {
    const scraped = await objectsOf('base', ['components/podmonitor']);
    const daemonSets = (await objectsOf('base')).filter(({ kind }) => kind === 'DaemonSet');
    const both = [...scraped.filter(({ kind }) => kind !== 'DaemonSet'), ...daemonSets];
    assert.deepEqual(audit(both), ['ip-masq-agent: Prometheus cannot reach loopback']);
  });
});

/** JSON with the fields of the source in an order that is easy to look for. */
function canonical(objects: readonly KubernetesObject[]): string {
  const first = 'name optional key mountPath httpGet host containerPort hostPort labels'.split(' ');
  const rank = (key: string) => (first.indexOf(key) + first.length + 1) % (first.length + 1);
  return JSON.stringify(objects, (_, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => rank(a) - rank(b)))
      : value,
  );
}
