import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { ROOT } from '../../image/make.ts';
import { assertSameText } from '../../lab/same-text.ts';
import { temporaryDirectory } from '../../lab/volume.ts';
import { agentIn } from '../lab/agent.ts';
import { type Cluster, clusterFromEnvironment } from '../lab/cluster.ts';
import { putAgentCommand } from '../lab/commands.ts';
import { pageText } from '../lab/documentation.ts';
import { kubectlFor } from '../lab/kubectl.ts';
import { untilNoRules } from '../lab/own-rules.ts';
import { scenario } from '../lab/scenario.ts';

const PAGE = 'docs/tutorial.md';
const NAMESPACE = 'kube-system';
/** A file to write, or commands and their outputs. */
const BLOCK = /(?<=to `(\S+)`:\n\n```yaml\n)(.*?)(?=^```$)|(?<=^```console\n)(.*?)(?=^```$)/gms;
/** Commands that change nothing: they are asked again until the cluster has come so far. */
const ASKS = /^(?:source_at|kubectl (?:-n \S+ )?(?:describe|exec|get|logs)|bin\/ip-masq-agent) /;
/** kubelet brings an edit within 90 s. */
const PATIENCE_MS = 120_000;
/** With UPDATE_GOLDEN=1 the page is written anew: then nobody knows when the cluster has come so far. */
const UPDATE = process.env['UPDATE_GOLDEN'] === '1';
const SETTLED_MS = 20_000;

const cluster = clusterFromEnvironment();
const isAsDescribed =
  cluster.localNodes.length > 0 && cluster.proxyMode === 'iptables' && cluster.families.join() === 'IPv4';
const skip = isAsDescribed ? false : 'the page is about a cluster of its own with iptables and IPv4';

scenario(
  'each command of the tutorial prints what the page says',
  async (lab) => {
    const kubectl = kubectlFor(cluster, NAMESPACE);
    await using stack = new AsyncDisposableStack();
    stack.defer(async () => {
      await kubectl.must(
        'delete',
        'pods',
        'client',
        'server',
        '--namespace=default',
        '--ignore-not-found',
        '--force',
      );
      const all = ['ip-masq-operator', 'ip-masq-cloud'].map((name) => `configmap/${name}`);
      await kubectl.must(
        'delete',
        'daemonset/ip-masq-agent',
        'serviceaccount/ip-masq-agent',
        ...all,
        '--ignore-not-found',
        '--cascade=foreground',
      );
    });
    await agentIn(kubectl, cluster, NAMESPACE).deploy();
    const shell = stack.use(await startShell(cluster));
    const text = await pageText(PAGE);
    const played: string[] = [];
    for (const [, file, content = '', session = ''] of text.matchAll(BLOCK)) {
      if (file !== undefined) await writeFile(join(shell.dir, file), content);
      else played.push(await play(shell, session));
    }
    if (UPDATE) {
      const next = played.values();
      const written = text.replace(BLOCK, (block, file) =>
        file === undefined ? (next.next().value ?? '') : block,
      );
      await writeFile(join(ROOT, PAGE), written);
    }
    await untilNoRules(lab);
  },
  { skip, timeout: 1_800_000 },
);

/** What the commands of a block print; each must print what the block says. */
async function play(shell: Shell, session: string): Promise<string> {
  const outputs: string[] = [];
  for (const [, command = '', expected = ''] of session.matchAll(/^\$ (.*)\n((?:(?!\$ ).*\n)*)/gm)) {
    if (UPDATE && ASKS.test(command)) await delay(SETTLED_MS);
    const deadline = Date.now() + (UPDATE || !ASKS.test(command) ? 0 : PATIENCE_MS);
    let output = await shell.run(command);
    while (alike(output) !== alike(expected) && Date.now() < deadline) {
      await delay(1000);
      output = await shell.run(command);
    }
    if (!UPDATE) assertSameText(alike(output), alike(expected), `it is printed by: ${command}`);
    outputs.push(`$ ${command}\n${output}`);
  }
  return outputs.join('');
}

interface Shell extends AsyncDisposable {
  /** Where it is: with bin/ip-masq-agent, as in a clone. */
  readonly dir: string;
  /** Runs a command, which may change the shell; returns both of its outputs. */
  run(command: string): Promise<string>;
}

async function startShell({ kubeconfig, kubectl }: Cluster): Promise<Shell> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryDirectory());
  await putAgentCommand(dir);
  const PATH = [dirname(kubectl), process.env['PATH']].join(delimiter);
  const env = { HOME: dir, PATH, KUBECONFIG: kubeconfig };
  const child = spawn(
    'bash',
    ['--norc', '-c', 'exec 2>&1; while read -r line; do eval "$line" < /dev/null; echo; echo .; done'],
    {
      cwd: dir,
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  stack.defer(() => void child.kill('SIGKILL'));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const owned = stack.move();
  return {
    dir,
    run: async (command) => {
      child.stdin.write(`${command}\n`);
      const printed: string[] = [];
      for (;;) {
        const { value, done } = await lines.next();
        assert.ok(!done, `the shell has ended: ${printed.join('\n')}`);
        if (value === '.') break;
        printed.push(value);
      }
      // The line break that ends it is there only if the output has none.
      const text = printed.join('\n').trimEnd();
      return text === '' ? '' : `${text}\n`;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Without what differs from run to run. */
function alike(text: string): string {
  return text
    .replace(/^(\s*ip-masq-agent) \S+(?=: the rules)/gm, '$1 X')
    .replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z|\b\w{3}, \d\d \w{3} \d{4} [\d:]+ \+0000/g, 'TIME')
    .replace(/ip-masq-agent-[a-z0-9]{5}\b/g, 'ip-masq-agent-POD')
    .replace(/iptables [\d.]+ /g, 'iptables X ')
    .replace(/ {2,}/g, '  ')
    .replace(/\b10\.244\.0\.\d+$/gm, '10.244.0.X');
}
