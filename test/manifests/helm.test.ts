import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { load } from 'js-yaml';
import { parseArgs } from '../../cmd/ip-masq-agent/parse-args.ts';
import { sizes } from '../lab/sizing.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { audit } from './audit.ts';
import { containerIn, type KubernetesObject, ofKind, theDaemonSet } from './documents.ts';
import { CHART, helm, NO_HELM, objectsOfChart, VALUES } from './helm.ts';
import { KUBERNETES, kustomizationsOf } from './kustomize.ts';
import { objectsOf } from './support.ts';

/** The name with which the chart has the names of the manifests. */
const RELEASE = 'ip-masq-agent';
const FILES = readdirSync(VALUES).map((file) => file.replace('.yaml', ''));
/** These are for kustomize only. */
const OF_KUSTOMIZE = ['aks-style', 'canary', 'v1-compatible'];
const COMPONENTS = kustomizationsOf('components').filter((path) => !path.endsWith('canary'));

describe('the values files of the chart', () => {
  it('are one for each component and overlay', () => {
    const names = ['components', 'overlays'].flatMap((dir) => readdirSync(join(KUBERNETES, dir)));
    const ofChart = [...new Set(names)].filter((name) => !OF_KUSTOMIZE.includes(name));
    assert.deepEqual(FILES.toSorted(), ofChart.toSorted());
  });
});

describe('the chart', { skip: NO_HELM }, () => {
  it('renders the base', async () => {
    assert.deepEqual(alike(await objectsOfChart(RELEASE)), alike(await objectsOf('base')));
  });

  for (const name of FILES)
    it(`renders ${name} with its values file, and the agent takes it`, async () => {
      const values = `--values=${join(VALUES, `${name}.yaml`)}`;
      const objects = await objectsOfChart(RELEASE, values);
      assert.deepEqual(alike(objects), alike(await kustomized(name)));
      assert.deepEqual(await audit(objects), []);
    });

  it('renders all components together', async () => {
    // `large` changes what node-readiness adds.
    const components = COMPONENTS.toSorted(
      (one, other) => Number(one.endsWith('/large')) - Number(other.endsWith('/large')),
    );
    const all = components.map((path) => join(VALUES, path.replace('components/', '')));
    const objects = await objectsOfChart(RELEASE, ...all.map((file) => `--values=${file}.yaml`));
    assert.deepEqual(alike(objects), alike(await objectsOf('base', components)));
  });

  it('is what helm lint accepts', async () => {
    const { code, stdout } = await helm('lint', '--strict', CHART);
    assert.equal(code, 0, stdout);
  });

  it('works as a copy of its directory alone, and Helm complains about nothing', async () => {
    await using directory = await temporaryDirectory();
    const copy = join(directory.path, 'chart');
    await cp(CHART, copy, { recursive: true });
    const values = ['prometheusRule', 'nodeReadiness', 'dashboard'].map(
      (name) => `--set=components.${name}=true`,
    );
    const { code, stdout, stderr } = await helm(
      'template',
      RELEASE,
      copy,
      '--namespace=kube-system',
      ...values,
    );
    assert.deepEqual([code, stderr], [0, '']);
    for (const kind of ['NodeReadinessRule', 'PrometheusRule', 'grafana_dashboard'])
      assert.ok(stdout.includes(kind), kind);
  });

  for (const [set, said] of [
    ['--set=flags.enable-ip6=true', /'\/flags': additional properties 'enable-ip6' not/],
    ['--set=config.masqueradeCIDR={}', /'\/config': additional properties/],
    ['--set=sizing=2000', /'\/sizing': value must be one of 1000, 5000/],
    ['--set=components.hardened=true', /set image\.digest/],
    ['--set=flags.metrics-bind-address=', /kubelet probes it; set 127\.0\.0\.1/],
    ['--set=config=null', /set configMap\.create=false/],
    ['--set=resources.limits.memory=95Mi', /is 95Mi, but 1000 CIDRs need 96Mi; raise the limit/],
    ['--set=prometheusRule.alerts.IpMasqAgentDown.enabled=false', /'\/prometheusRule\/alerts': additional/],
    // Old names.
    ['--set=components.prometheus-rules=true', /must be 'renamed to components\.prometheusRule'/],
  ] as const)
    it(`refuses ${set}, and says why`, async () => {
      const { code, stderr } = await helm('template', RELEASE, CHART, set);
      assert.equal(code, 1);
      assert.match(stderr, said);
    });

  it('tests a release by a pod that the DaemonSet does not delete as one of its own', async () => {
    for (const args of [[], ['--set=nameOverride=other,commonLabels.team=network']]) {
      const { matchLabels } = theDaemonSet(await objectsOfChart(RELEASE, ...args)).spec.selector;
      const { stdout } = await helm(
        'template',
        RELEASE,
        CHART,
        '--show-only=templates/tests/status.yaml',
        ...args,
      );
      const { metadata } = load(stdout) as KubernetesObject;
      assert.notDeepEqual({ ...metadata.labels, ...matchLabels }, metadata.labels);
    }
  });

  it('changes no pod for another config, and writes no config file that another program keeps', async () => {
    const before = await objectsOfChart(RELEASE);
    const after = await objectsOfChart(RELEASE, '--set=config.masqLinkLocal=true');
    const none = await objectsOfChart(RELEASE, '--set=configMap.create=false');
    const changed = after.filter((object, index) => JSON.stringify(object) !== JSON.stringify(before[index]));
    const kinds = changed.map(({ kind }) => kind);
    assert.deepEqual(kinds, ['ConfigMap']);
    const others = before.filter(({ kind }) => kind !== 'ConfigMap');
    assert.deepEqual(none, others);
  });

  it('has releases that share no object and no pod', async () => {
    const args = ['dual-stack', 'podmonitor'].map((name) => `--values=${join(VALUES, `${name}.yaml`)}`);
    const [one, other] = await Promise.all(
      ['pool-a', 'ip-masq-agent-b'].map((release) => objectsOfChart(release, ...args)),
    );
    const names = [...(one ?? []), ...(other ?? [])].map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.equal(names.length, 10);
    assert.equal(new Set(names).size, names.length, names.join());
    const selectors = [one, other].map((objects) => theDaemonSet(objects ?? []).spec.selector.matchLabels);
    assert.notDeepEqual(selectors[0], selectors[1]);
  });

  it('tells ip-masq-ranges which config files the agents accept', async () => {
    const set = [
      'components.ranges=true,components.strict=true',
      'flags.must-masquerade={8.0.0.0/8,9.0.0.0/8}',
    ];
    const objects = await objectsOfChart('ip-masq-agent', ...set.map((value) => `--set=${value}`));
    const text = JSON.stringify(objects);
    const flags = ['--v=2', '--must-masquerade=8.0.0.0/8', '--must-masquerade=9.0.0.0/8', '--strict'];
    assert.ok(text.includes(`"args":["${flags.join('","')}","--namespace=`), text);
  });

  it('takes what charts usually take', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'values.yaml');
    await writeFile(file, USUAL);
    const objects = await objectsOfChart('pool-a', `--values=${file}`);
    assert.deepEqual(await audit(objects), []);
    const text = JSON.stringify(objects);
    for (const value of new Set(
      USUAL.replace('{{ .Release.Namespace }}', 'kube-system').match(/\bx-[\w.-]+/g),
    ))
      assert.ok(text.includes(value), value);
    const expected = '"labels":{"daemonset":"x-name","namespace":"kube-system"}';
    const runbook = '"runbook_url":"https://x-wiki/runbook.md#ipmasqagentmissing"';
    for (const part of [
      '"revisionHistoryLimit":0',
      '"interval":"15s"',
      '"scrapeTimeout":"12s"',
      '"--log-format=text"',
      '"interval":"45s"',
      expected,
      runbook,
    ])
      assert.ok(text.includes(part), part);
    const { spec, metadata } = theDaemonSet(objects);
    assert.deepEqual([metadata.name, metadata.labels?.['team']], ['x-name', 'x-common']);
    assert.equal(spec.selector.matchLabels['app.kubernetes.io/name'], 'x-label');
    const { resources, imagePullPolicy } = containerIn(objects) as unknown as Record<string, unknown>;
    assert.deepEqual(resources, {
      requests: { cpu: '20m', memory: '48Mi', 'ephemeral-storage': '50Mi' },
      limits: { memory: '96Mi', cpu: '1' },
    });
    assert.equal(imagePullPolicy, 'Always');
    for (const kind of ['PodMonitor', 'PrometheusRule'] as const)
      assert.equal(ofKind(kind, objects)[0]?.metadata.labels?.['release'], 'x-stack');
  });

  it('has the rows of the sizing table', async () => {
    for (const { cidrs, limitMiB, flags } of sizes()) {
      const objects = await objectsOfChart(RELEASE, `--set=sizing=${cidrs}`);
      const { args = [], resources } = containerIn(objects);
      assert.deepEqual(resources, {
        requests: { cpu: '10m', memory: '48Mi', 'ephemeral-storage': '50Mi' },
        limits: { memory: `${limitMiB}Mi` },
      });
      const others = args.filter((arg) => !/^--(?:v|metrics-bind-address|state-dir)=/.test(arg));
      assert.deepEqual(others.toSorted(), flags.toSorted(), `${cidrs}`);
    }
  });
});

/** Each value that begins with x- must be in the objects. */
const USUAL = `
image: {pullPolicy: Always}
imagePullSecrets: [{name: x-secret}]
nameOverride: x-label
fullnameOverride: x-name
commonLabels: {team: x-common}
podLabels: {pod: x-pod}
podAnnotations: {pod: x-annotation}
daemonsetAnnotations: {reloader: x-reloader}
global: {imageRegistry: x-registry.example.net}
extraObjects: [{apiVersion: v1, kind: ServiceAccount, metadata: {name: 'x-{{ .Release.Namespace }}-extra', namespace: kube-system}}]
serviceAccount: {name: x-account, annotations: {role: x-role}}
priorityClassName: x-priority
updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
revisionHistoryLimit: 0
resources: {requests: {cpu: 20m}, limits: {cpu: '1'}}
affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: x-topology}}]}}
extraArgs: [--log-format=text]
extraEnv: [{name: TZ, value: x-zone}]
extraVolumes: [{name: x-volume, emptyDir: {}}]
extraVolumeMounts: [{name: x-volume, mountPath: /x-mounted}]
components: {podMonitor: true, prometheusRule: true}
podMonitor:
  interval: 15s
  scrapeTimeout: 12s
  labels: {release: x-stack}
  relabelings: [{targetLabel: cluster, replacement: x-cluster}]
  metricRelabelings: [{action: labeldrop, regex: x-label-of-metric}]
prometheusRule:
  interval: 45s
  labels: {release: x-stack}
  runbookUrl: https://x-wiki/runbook.md
  alerts: {IpMasqAgentMissing: {severity: x-page}, IpMasqAgentInvalidPackets: {enabled: false}}
`;

function kustomized(name: string): Promise<readonly KubernetesObject[]> {
  const overlay = join('overlays', name);
  return existsSync(join(KUBERNETES, overlay))
    ? objectsOf(overlay)
    : objectsOf('base', [`components/${name}`]);
}

/** Labels that only a release has. */
const OF_HELM = [
  ...['instance', 'managed-by', 'version'].map((label) => `app.kubernetes.io/${label}`),
  'helm.sh/chart',
];
/** That of v1, which the selector of gke-style has in the place of ours. */
const OF_V1 = 'k8s-app';

/**
 * The objects by kind and name, each as what it means: without the labels of Helm, with the flags by their names, as the order of a
 * map is none, and with config files as YAML is read.
 */
function alike(objects: readonly KubernetesObject[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    objects.map((object) => [
      `${object.kind} ${object.metadata.name}`,
      JSON.parse(JSON.stringify(object, meaning)),
    ]),
  );
}

function meaning(key: string, value: unknown): unknown {
  // The chart knows which families the agents keep: components of kustomize do not know each other.
  if (key === 'args' && `${value}`.includes('--namespace=')) return [];
  if (key === 'args') return Object.fromEntries(parseArgs(value as readonly string[]).flagTexts);
  if (key === 'data')
    return Object.fromEntries(Object.entries(value as object).map(([name, text]) => [name, load(text)]));
  // kustomize doubles line breaks of CEL.
  if (key === 'expression') return `${value}`.replaceAll(/\n+/g, '\n');
  // In the release ip-masq-agent both labels have the same value.
  if (key === 'jobLabel') return 'app.kubernetes.io/name';
  return key === 'labels' || key === 'matchLabels' ? withoutRelease(value as object) : value;
}

function withoutRelease(labels: object): object | undefined {
  const all = Object.entries(labels);
  const own = all.filter(([name]) => ![...OF_HELM, OF_V1].includes(name));
  if (own.length > 0) return Object.fromEntries(own);
  return OF_V1 in labels ? { 'app.kubernetes.io/name': 'ip-masq-agent' } : undefined;
}
