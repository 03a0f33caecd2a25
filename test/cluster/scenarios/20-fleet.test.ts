import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { loadAll } from 'js-yaml';
import { bundle } from '../../../build/bundle.ts';
import { type RunResult, run } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { sectionOf } from '../lab/documentation.ts';
import { cidrs, configFileText, podsInside } from '../lab/packets.ts';
import { type Lab, scenario } from '../lab/scenario.ts';
import { until } from '../lab/wait.ts';

const CHANNEL = 'ip-masq-agent/channel';
const POLICY = new URL('../../../examples/kubernetes/admission/exec.yaml', import.meta.url);
const CANARY = 'daemonset/ip-masq-agent-canary';

/** What is asked for again and again. */
type Command = 'status' | 'diff' | 'explain';

scenario('one command tells two pools, an agent that crash-loops, and a node without one', async (lab, t) => {
  const { agent, kubectl, nodes } = lab;
  const [one, two] = nodes;
  const configFiles = podsInside(lab);
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await temporaryDirectory()).path;
  const plugin = join(dir, 'kubectl-ip_masq');
  await bundle({ version: 'v9.9.9', file: plugin, interpreter: '/usr/bin/env node', oldest: 'node20' });
  const [address = ''] = cidrs(lab, 'nodes').map((cidr) => cidr.replace(/\/.*/, ''));
  const ask = (command: Command, kubeconfig?: string) =>
    asPlugin(lab, dir, kubeconfig, command, ...(command === 'explain' ? ['--live', address] : []));
  const told = async (command: Command, code: number, ...groups: readonly RegExp[]) => {
    const { stdout, stderr, code: found } = await ask(command);
    t.diagnostic(`kubectl ip-masq ${command}, exit code ${found}:\n${stdout}`);
    assert.deepEqual([found, stderr], [code, '']);
    for (const group of groups) assert.match(stdout, group);
    assert.match(
      stdout,
      groups.length === 1 ? /\n1 group: 2 = 2 nodes\n$/ : /\n2 groups: 1 \+ 1 = 2 nodes\n$/,
    );
  };
  const of = (name: string, text: RegExp) => new RegExp(`^1 node: ${name}\\n {2}${text.source}`, 'm');
  const unchanged = /with the config \w+:\n {2}.*: nothing to change$/;
  const inSync = /ip-masq-agent \S+: the rules are in sync$/;

  await t.test(
    'two nodes with one config are one group, also with the rights of the documentation alone',
    async () => {
      await agent.deploy({ configFiles });
      const both = (text: RegExp) => new RegExp(`^2 nodes: .*\\n {2}${text.source}`, 'm');
      await until(
        'both agents to be in sync',
        () => ask('status'),
        ({ code }) => code === 0,
      );
      await told('status', 0, both(inSync));
      await told('diff', 0, both(unchanged));
      await told('explain', 0, both(/\S+.*: masqueraded.*the kernel agrees$/));
      assert.match((await asPlugin(lab, dir, undefined)).stderr, /needs an argument/);
      const { stdout } = await run(
        { file: lab.cluster.kubectl, args: ['plugin', 'list'] },
        environment(lab, dir),
      );
      assert.ok(stdout.includes(plugin), stdout);

      const account = await narrowAccount(lab, dir);
      const refused = await ask('status', account.kubeconfig);
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /^ip-masq-agent: cannot list the (?:nodes|pods): .*\(Forbidden\)/);
      stack.use(await account.allow());
      const allowed = await until(
        'the rights to hold',
        () => ask('status', account.kubeconfig),
        ({ code }) => code === 0,
      );
      assert.match(allowed.stdout, both(inSync));

      const [pod] = await agent.pods();
      const other = () => account.exec(pod?.name ?? '', 'ip-masq-agent', 'cleanup', '--dry-run');
      assert.equal((await other()).code, 0);
      stack.use(await onlyAsks(lab));
      const denied = await until('the policy to hold', other, ({ stderr }) => stderr.includes('denied'));
      assert.match(denied.stderr, /this group may run only status/);
      const check = (...paths: string[]) => account.exec(pod?.name ?? '', 'ip-masq-agent', 'check', ...paths);
      assert.equal((await check()).code, 0);
      assert.match((await check('/etc/shadow')).stderr, /this group may run only status/);
      await told('status', 0, both(inSync));
      assert.equal((await ask('status', account.kubeconfig)).code, 0);
    },
  );

  await t.test('two pools with different lists are two groups', async () => {
    stack.defer(async () => void (await kubectl.must('label', 'node', two.name, `${CHANNEL}-`)));
    await agent.apply({ configFiles, canary: { 'ip-masq-operator': configFileText(lab, 'nodes', 'pods') } });
    await kubectl.must('label', 'node', two.name, `${CHANNEL}=canary`, '--overwrite');
    await kubectl.must('rollout', 'status', CANARY, '--timeout=180s');
    await until(
      'both agents to be in sync',
      () => ask('status'),
      ({ code }) => code === 0,
    );
    await told('status', 0, of(one.name, inSync), of(two.name, inSync));
    await told(
      'explain',
      0,
      of(one.name, /\S+.*: masqueraded.*; the kernel agrees$/),
      of(two.name, /\S+.*: not masqueraded, by .* of ip-masq-operator:1:\d+; the kernel agrees$/),
    );
    await told('diff', 0, of(one.name, unchanged), of(two.name, unchanged));
  });

  await t.test('an agent that crash-loops is a group with its message', async () => {
    await agent.apply({ configFiles, canary: { 'ip-masq-operator': 'nonMasqueradeCIDRs: [10.0.0.1/8]\n' } });
    await kubectl.must('annotate', 'pods', '--all', '--overwrite', 'ip-masq-agent.test/nudge=canary');
    const crashed = of(
      two.name,
      /the agent crash-loops: exit code 3 \(Error\)\n.*\n {2}ip-masq-operator:1:22: error: "10\.0\.0\.1\/8" is not a network address/,
    );
    await until(
      'the agent to crash',
      () => ask('status'),
      ({ stdout }) => crashed.test(stdout),
    );
    await told('status', 1, of(one.name, inSync), crashed);
    await told('diff', 1, of(one.name, unchanged), crashed);
    await told('explain', 1, of(one.name, /.*: masqueraded/), crashed);
  });

  await t.test('a node without an agent is a group', async () => {
    await kubectl.must('delete', CANARY, '--cascade=foreground');
    const bare = of(two.name, /no pod of the agent$/);
    await until(
      'the pod to be gone',
      () => ask('status'),
      ({ stdout }) => bare.test(stdout),
    );
    await told('status', 1, of(one.name, inSync), bare);
    await told('diff', 1, of(one.name, unchanged), bare);
    await told('explain', 1, of(one.name, /.*: masqueraded/), bare);
  });
});

/** Runs the plugin through kubectl, as people do, with the Node.js of the machine. */
async function asPlugin(
  lab: Lab,
  dir: string,
  kubeconfig: string | undefined,
  ...words: readonly string[]
): Promise<RunResult> {
  const env = environment(lab, dir);
  const args = ['ip-masq', ...words, ...(words.length > 0 ? [`--namespace=${lab.namespace}`] : [])];
  return run({ file: lab.cluster.kubectl, args }, { ...env, ...(kubeconfig && { KUBECONFIG: kubeconfig }) });
}

function environment({ cluster }: Lab, dir: string) {
  const PATH = [dir, dirname(cluster.kubectl), '/usr/local/bin', '/usr/bin', '/bin'].join(':');
  const { KUBECACHEDIR } = process.env;
  return { PATH, HOME: dir, KUBECONFIG: cluster.kubeconfig, ...(KUBECACHEDIR && { KUBECACHEDIR }) };
}

/** The shipped policy for `exec`, for the accounts of the test's namespace, under another name than that of other runs. */
async function onlyAsks({ kubectl, namespace }: Lab): Promise<AsyncDisposable> {
  const shipped = await readFile(POLICY, 'utf8');
  const objects = shipped
    .replaceAll('ip-masq-agent-exec', `ip-masq-exec-${namespace}`)
    .replace('network-team', `system:serviceaccounts:${namespace}`)
    .replace('kube-system', namespace);
  const [policy, binding] = loadAll(objects) as readonly { readonly metadata: { readonly name: string } }[];
  assert.ok(policy && binding);
  await kubectl.apply(policy, binding);
  const kinds = ['validatingadmissionpolicy', 'validatingadmissionpolicybinding'];
  return {
    [Symbol.asyncDispose]: async () =>
      void (await kubectl.must('delete', ...kinds.map((kind) => `${kind}/${policy.metadata.name}`))),
  };
}

/** An account without rights, with a kubeconfig of its own. It can be given those of the documentation. */
async function narrowAccount(lab: Lab, dir: string) {
  const { kubectl, namespace } = lab;
  const name = 'ip-masq-fleet';
  await kubectl.must('create', 'serviceaccount', name);
  const token = (await kubectl.must('create', 'token', name)).trim();
  const config = JSON.parse(
    await kubectl.must('config', 'view', '--raw', '--flatten', '--minify', '--output=json'),
  );
  config.users = config.users.map((user: object) => ({ ...user, user: { token } }));
  const kubeconfig = join(dir, 'narrow');
  await writeFile(kubeconfig, JSON.stringify(config));
  const allow = async (): Promise<AsyncDisposable> => {
    const [, yaml = ''] =
      /^```yaml\n(.*?)^```$/ms.exec(await sectionOf('docs/install.md', 'Ask all nodes')) ?? [];
    const subject = `--serviceaccount=${namespace}:${name}`;
    // The names of what belongs to no namespace are unlike those of other runs.
    const cluster = `${name}-${namespace}`;
    const [role, clusterRole] = loadAll(yaml) as readonly { readonly metadata: object }[];
    assert.ok(role && clusterRole);
    await kubectl.apply({ ...role, metadata: { name } }, { ...clusterRole, metadata: { name: cluster } });
    await kubectl.must('create', 'rolebinding', name, `--role=${name}`, subject);
    await kubectl.must('create', 'clusterrolebinding', cluster, `--clusterrole=${cluster}`, subject);
    return {
      [Symbol.asyncDispose]: async () =>
        void (await kubectl.must('delete', `clusterrole/${cluster}`, `clusterrolebinding/${cluster}`)),
    };
  };
  const exec = (pod: string, ...command: readonly string[]) =>
    run(
      {
        file: lab.cluster.kubectl,
        args: ['exec', `pod/${pod}`, `--namespace=${namespace}`, '--', ...command],
      },
      { ...environment(lab, dir), KUBECONFIG: kubeconfig },
    );
  return { kubeconfig, allow, exec };
}
