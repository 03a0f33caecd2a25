import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { loadAll } from 'js-yaml';
import { anyWriting } from '../../manifests/any-writing.ts';
import { CONFIGS, isConfig, SLIPS } from '../../manifests/config-slips.ts';
import { readPolicy } from '../../manifests/policy.ts';
import { almostConfig } from '../../unit/config/arbitrary.ts';
import { clusterFromEnvironment } from '../lab/cluster.ts';
import { type Kubectl, kubectlFor, namespaceFor } from '../lab/kubectl.ts';
import { until } from '../lab/wait.ts';

const ADMISSION = new URL('../../../examples/kubernetes/admission/', import.meta.url);
const POLICY = readPolicy('admission/errors.yaml');
const COUNT = 200;
/** The size up to which the policy looks at config files. */
const LIMIT = 65_536;

test('the policies in the API server refuse only what the agent refuses, and say why', async (t) => {
  await using stack = new AsyncDisposableStack();
  const kubectl = await policiesIn(stack);

  await t.test('every class of mistake that the policy claims to catch', async () => {
    const answers = await dryRun(
      kubectl,
      SLIPS.map(([text]) => ({ 'ip-masq-a': text })),
    );
    for (const [index, [text]] of SLIPS.entries()) {
      assert.ok(answers[index] !== undefined, text);
      assert.equal(answers[index], saidFirst(text), text);
    }
  });

  await t.test('it takes what is a config, however odd', async () => {
    const answers = await dryRun(
      kubectl,
      CONFIGS.map((text) => ({ 'ip-masq-a': text })),
    );
    assert.deepEqual(
      answers,
      CONFIGS.map(() => undefined),
    );
  });

  await t.test('random configs: the API server and the evaluator of the tests agree', (context) =>
    randomConfigs(kubectl, context),
  );

  await t.test('texts at the size limit stay inside the budget of the API server', (context) =>
    atTheLimit(kubectl, context),
  );

  await t.test('a key that the agent does not read is a warning', async () => {
    const object = configMap('near-miss', { 'ip-masq.yaml': '' });
    const { code, stderr } = await kubectl.create([object]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /Warning: .*the agent does not read the key ip-masq\.yaml/);
  });
});

/** kubectl in a namespace that has the policies. */
interface Reviewed {
  create(objects: readonly object[]): ReturnType<Kubectl['run']>;
}

/**
 * Makes the shipped policies apply to a namespace of their own, as their README says. They have names of their own, and
 * refuse where a rule cannot be evaluated: the shipped ones would let that pass unseen.
 */
async function policiesIn(stack: AsyncDisposableStack): Promise<Reviewed> {
  const cluster = clusterFromEnvironment();
  const namespace = `ip-masq-test-${randomBytes(3).toString('hex')}`;
  const kubectl = kubectlFor(cluster, namespace);
  await kubectl.apply(namespaceFor(namespace, 'ip-masq-agent.test/scenario'));
  stack.defer(async () => {
    await kubectl.must('delete', 'namespace', namespace, '--wait=false');
  });
  const texts = await Promise.all(
    ['errors.yaml', 'warnings.yaml'].map((file) => readFile(new URL(file, ADMISSION), 'utf8')),
  );
  const own = texts
    .join('\n---\n')
    .replaceAll('kubernetes.io/metadata.name: kube-system', `kubernetes.io/metadata.name: ${namespace}`)
    .replaceAll('failurePolicy: Ignore', 'failurePolicy: Fail')
    .replaceAll(/(name|policyName): (ip-masq-agent-config-(?:errors|warnings))$/gm, `$1: $2-${namespace}`);
  const objects = loadAll(own) as object[];
  assert.equal(objects.length, 4);
  const names = ['errors', 'warnings'].map((kind) => `ip-masq-agent-config-${kind}-${namespace}`);
  stack.defer(async () => {
    for (const kind of ['validatingadmissionpolicybindings', 'validatingadmissionpolicies'])
      await kubectl.must('delete', kind, ...names, '--ignore-not-found');
  });
  await kubectl.apply(...objects);
  const reviewed: Reviewed = {
    create: (items) =>
      kubectl.feed({ apiVersion: 'v1', kind: 'List', items }, 'create', '--dry-run=server', '--filename=-'),
  };
  const [, [slip] = ['']] = SLIPS;
  await until(
    'the API server to apply the policies',
    async () =>
      [
        await dryRun(reviewed, [{ 'ip-masq-a': slip }]),
        await reviewed.create([configMap('near-miss', { 'ip-masq.yaml': '' })]),
      ] as const,
    ([[answer], { stderr }]) => answer !== undefined && stderr.includes('Warning'),
  );
  return reviewed;
}

function configMap(name: string, data: Readonly<Record<string, string>>): object {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data };
}

const REFUSAL = /configmaps "c-(\d+)" is (?:forbidden|invalid):.*? denied request: (.*)$/s;

/** What the API server says against each of the ConfigMaps; undefined for those that it takes. All in one request of kubectl. */
async function dryRun(
  { create }: Reviewed,
  all: readonly Readonly<Record<string, string>>[],
): Promise<readonly (string | undefined)[]> {
  const { stdout, stderr } = await create(all.map((data, index) => configMap(`c-${index}`, data)));
  const refused = new Map(
    // A message may quote other line breaks, such as U+2028.
    stderr.split('\n').flatMap((line) => {
      const [, index, said = ''] = REFUSAL.exec(line) ?? [];
      return index === undefined ? [] : [[Number(index), said]];
    }),
  );
  const taken = new Set(
    [...stdout.matchAll(/^configmap\/c-(\d+) created/gm)].map(([, index]) => Number(index)),
  );
  return all.map((_, index) => {
    const said = refused.get(index);
    assert.notEqual(said === undefined, !taken.has(index), `c-${index}: ${stderr.slice(0, 2_000)}`);
    return said;
  });
}

/** Of several messages, the API server shows the first. */
function saidFirst(text: string): string | undefined {
  const object = { kind: 'ConfigMap', metadata: { name: 'c' }, data: { 'ip-masq-a': text } } as const;
  return POLICY.review(object)[0];
}

async function randomConfigs(kubectl: Reviewed, t: TestContext): Promise<void> {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`measured: SEED=${seed}`);
  const anyText = fc.oneof(almostConfig(), anyWriting());
  const mistakes = SLIPS.map(([text]) => `\n${text}`);
  // Every second one has a mistake of a known class in it.
  const anyOne = fc.tuple(anyText, fc.oneof(fc.constant(''), fc.constantFrom(...mistakes)));
  // What is sent is UTF-8, which has no halves of characters.
  const texts = fc.sample(anyOne, { seed, numRuns: COUNT }).map((parts) => parts.join('').toWellFormed());
  const answers = await dryRun(
    kubectl,
    texts.map((text) => ({ 'ip-masq-a': text })),
  );
  let refused = 0;
  for (const [index, text] of texts.entries()) {
    const answer = answers[index];
    // The evaluator's RE2 finds other words beside characters of more than 16 bits.
    if (!/[\u{10000}-\u{10ffff}]/u.test(text)) assert.equal(answer, saidFirst(text), text);
    if (answer === undefined) continue;
    refused += 1;
    assert.equal(isConfig(text), false, `the agent takes what the API server refuses (${answer}):\n${text}`);
  }
  t.diagnostic(
    `measured: random configs: ${refused} of ${COUNT} refused by the API server, ${texts.filter((text) => !isConfig(text)).length} by the agent`,
  );
  assert.ok(refused > 0 && refused < COUNT, 'the configs are all of one kind');
}

/** What costs most: many words, keys, lines or comments, or one long word. */
const COSTLY = [
  '- 10.0.0.0/8\n',
  '- ::/0\n',
  '::\n',
  '/ ',
  'a:\n',
  '"a":',
  'cidrLimit:\n',
  'masqLinkLocal:x\n',
  'resyncInterval: 1\n',
  '\t- \n',
  '- 1.1.1.1/1 x\n',
  '#\n',
  'a\n',
  'a',
  '/',
];

async function atTheLimit(kubectl: Reviewed, t: TestContext): Promise<void> {
  for (const unit of COSTLY) {
    const text = unit.repeat(LIMIT).slice(0, LIMIT);
    const begun = performance.now();
    const [answer] = await dryRun(kubectl, [{ 'ip-masq-a': text }]);
    t.diagnostic(
      `measured: 64 KiB of ${JSON.stringify(unit)}: ${Math.round(performance.now() - begun)} ms, ${answer?.slice(0, 60) ?? 'taken'}`,
    );
    assert.doesNotMatch(answer ?? '', /expression|cost|budget|error/, `64 KiB of ${JSON.stringify(unit)}`);
  }
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`ip-masq-${index}`, '']));
  const begun = performance.now();
  assert.deepEqual(await dryRun(kubectl, [many]), [undefined]);
  t.diagnostic(`measured: 20,000 keys: ${Math.round(performance.now() - begun)} ms`);
}
