import assert from 'node:assert/strict';
import { copyFile, mkdir, realpath, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { run, succeed } from '../../lab/run.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { copyGitops, POOLS } from '../../manifests/gitops.ts';
import { putAgentCommand } from '../lab/commands.ts';
import { kubectlFor } from '../lab/kubectl.ts';
import { scenario } from '../lab/scenario.ts';

const CLUSTER = 'prod-eu';
const IMAGE = 'registry.example.com/team/ip-masq-agent';
/** What the directory names, and this test with it. */
const NAMESPACE = 'kube-system';

scenario(
  'the pools of the directory for GitOps cover the nodes, and no assertion is broken on any',
  async (lab) => {
    const { cluster, nodes } = lab;
    await using stack = new AsyncDisposableStack();
    const dir = await realpath(stack.use(await temporaryDirectory()).path);
    await copyGitops(join(dir, 'clusters'));
    await putAgentCommand(dir);
    const kubectl = kubectlFor(cluster, NAMESPACE);
    const [, newName = '', newTag = ''] = /^(.*):([^:/]+)$/.exec(cluster.image) ?? [];
    const images = [{ name: IMAGE, newName, newTag }];
    await mkdir(join(dir, 'tried'));
    const tried = { resources: [`../clusters/fleet/${CLUSTER}`], images };
    await writeFile(join(dir, 'tried/kustomization.yaml'), JSON.stringify(tried));
    const cloud = `--filename=${join(dir, 'clusters/clouds', `${CLUSTER}.yaml`)}`;
    const objects = `--kustomize=${join(dir, 'tried')}`;
    stack.defer(async () => {
      await kubectl.must('delete', cloud, '--ignore-not-found');
      await kubectl.must('delete', objects, '--ignore-not-found', '--cascade=foreground');
      await kubectl.must('label', 'node', nodes[0].name, 'pool-');
    });
    await kubectl.must('label', 'node', nodes[0].name, 'pool=edge');
    await kubectl.must('apply', cloud);
    await kubectl.must('apply', objects);

    const kubeconfig = join(dir, 'kubeconfig');
    await copyFile(cluster.kubeconfig, kubeconfig);
    const PATH = [join(dir, 'bin'), dirname(cluster.kubectl), process.env['PATH']].join(delimiter);
    const env = { HOME: dir, KUBECONFIG: kubeconfig, KUBELET_SECONDS: '0', PATH };
    const must = (file: string, ...args: readonly string[]) =>
      succeed(run({ file, args }, env, { timeoutMs: 300_000 }));
    const context = (await must(cluster.kubectl, 'config', 'current-context')).trim();
    await must(cluster.kubectl, 'config', 'rename-context', context, CLUSTER);
    const asked = 'cd "$0/clusters" && exec ci/after-deploy.sh "$1"';
    const stdout = await must('sh', '-c', asked, dir, CLUSTER);
    for (const [index, pool] of POOLS.entries())
      assert.match(
        stdout,
        new RegExp(`^1 node: ${nodes[index]?.name}\\n(?:  .*\\n)*  DaemonSet: ip-masq-agent-${pool}\\n`, 'm'),
      );
  },
);
