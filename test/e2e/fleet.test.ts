import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { bundle } from '../../build/bundle.ts';
import schema from '../../schemas/ip-masq-outputs.schema.json' with { type: 'json' };
import { playPages, printed, type Stage } from '../lab/golden.ts';
import { temporaryDirectory } from '../lab/volume.ts';
import { createNode, eventually, inside } from './support.ts';

const STAND_IN = fileURLToPath(new URL('../lab/kubectl.pl', import.meta.url));

/** The commands for the fleet, as their words. */
const COMMANDS = ['status', 'doctor', 'explain 10.1.2.3 8.8.8.8'] as const;

/** What an agent answers: the output and the exit code of each command, as the files that the stand-in reads. */
type Answers = Readonly<Record<string, string>>;

/** What exec in a pod does; see test/lab/kubectl.pl. */
interface Behaviour {
  readonly answers?: Answers;
  readonly stderr?: string;
  readonly code?: number;
  readonly wait?: number;
  readonly bytes?: number;
  /** Whether kubectl itself fails, not the command in the pod. */
  readonly refused?: boolean;
}

/** A node, and the status of its pod's container; no pod if that is absent. */
interface Member {
  readonly name: string;
  readonly container?: object;
  readonly daemonSet?: string;
  readonly behaviour?: Behaviour;
}

const RUNNING = { name: 'ip-masq-agent', ready: true, state: { running: {} }, lastState: {} };
const MESSAGE =
  '1 error in the config; the rules on this node do not change\nip-masq-a:1:22: error: "10.0.0.1/8"\n';
const CRASHED = {
  name: 'ip-masq-agent',
  ready: false,
  state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 10s restarting failed container' } },
  lastState: { terminated: { exitCode: 3, reason: 'Error', message: MESSAGE } },
};

/** A node whose agent answers this to a command. */
function answering(name: string, command: string, answer: object | string, more: Behaviour = {}): Member {
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  return running(name, { ...more, answers: { [`${command}.json`]: text } });
}

function running(name: string, behaviour: Behaviour): Member {
  return { name, container: RUNNING, behaviour };
}

describe('fleet', () => {
  const stack = new AsyncDisposableStack();
  let dir: string;
  let plugin: string;
  let pools: readonly [Answers, Answers];
  /** The Node.js of the machine, with which people run the plugin: not the one that the lockfile pins. */
  let node: string;
  before(async () => {
    dir = stack.use(await temporaryDirectory()).path;
    plugin = join(dir, 'plugin/kubectl-ip_masq');
    await mkdir(join(dir, 'plugin'));
    await bundle({ version: 'v9.9.9', file: plugin, interpreter: '/usr/bin/env node', oldest: 'node20' });
    await rm(join(dir, 'plugin/package.json'));
    await mkdir(join(dir, 'bin'));
    await copyFile(STAND_IN, join(dir, 'bin/kubectl.pl'));
    node = machineNode();
    for (const [name, command] of [
      ['kubectl', `/usr/bin/perl ${join(dir, 'bin/kubectl.pl')}`],
      ['fleet', `${node} ${plugin}`],
    ] as const) {
      await writeFile(join(dir, 'bin', name), `#!/bin/sh\nexec ${command} "$@"\n`);
      await chmod(join(dir, 'bin', name), 0o755);
    }
    pools = [await realAnswers(inside('10.0.0.0/8')), await realAnswers(inside('10.0.0.0/8', '8.0.0.0/8'))];
  });
  after(() => stack.disposeAsync());

  let cases = 0;
  playPages('fleet', async (): Promise<Stage> => {
    const answers = join(dir, `case-${cases++}`);
    await mkdir(answers);
    return {
      write: async (path, content) => {
        await mkdir(join(answers, dirname(path)), { recursive: true });
        await writeFile(join(answers, path), content);
      },
      run: async (line) => {
        const env = { PATH: `${join(dir, 'bin')}:/usr/bin:/bin`, KUBECTL_ANSWERS: answers };
        const shell = spawn('/bin/bash', ['--norc', '-c', line], { env, cwd: answers });
        const { code, stdout, stderr } = await ended(shell);
        return printed(code, stdout, stderr);
      },
      [Symbol.asyncDispose]: async () => {},
    };
  });

  /** Lays out a cluster, and returns its directory. */
  async function cluster(name: string, members: readonly Member[]): Promise<string> {
    const answers = join(dir, name);
    await mkdir(answers);
    const nodes = members.map((one) => `${one.name}\n`);
    await writeFile(join(answers, 'nodes'), nodes.join(''));
    const lines = members.flatMap((one) =>
      one.container
        ? [
            `${one.name}\tagent-of-${one.name}\t\tRunning\t${JSON.stringify([one.container])}\t${one.daemonSet ?? 'agents'}\n`,
          ]
        : [],
    );
    await writeFile(join(answers, 'pods'), lines.join(''));
    for (const { name, behaviour = {} } of members) {
      const pod = join(answers, `agent-of-${name}`);
      await mkdir(pod);
      const { answers: outputs = {}, ...rest } = behaviour;
      for (const [command, output] of Object.entries(outputs)) await writeFile(join(pod, command), output);
      for (const [file, value] of Object.entries(rest))
        if (value !== false) await writeFile(join(pod, file), String(value));
    }
    return answers;
  }

  function start(answers: string, words: readonly string[], path = join(dir, 'bin')): ChildProcess {
    const env = { PATH: path, KUBECTL_ANSWERS: answers };
    return spawn(node, [plugin, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  }

  async function ended(child: ChildProcess) {
    const outputs = [child.stdout, child.stderr].map((stream) => text(stream ?? assert.fail()));
    const [code] = await once(child, 'close');
    const [stdout = '', stderr = ''] = await Promise.all(outputs);
    return { code, stdout, stderr };
  }

  const run = (answers: string, ...words: readonly string[]) => ended(start(answers, words));

  const good = (name: string, wait = 0, pool: 0 | 1 = 0) => running(name, { answers: pools[pool], wait });

  it('tells the odd nodes in groups whose numbers add up, with each command', async (t) => {
    t.diagnostic(
      `the Node.js of the machine is ${execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()}`,
    );
    const members: readonly Member[] = [
      ...Array.from({ length: 9 }, (_, index) => good(`node-${index}`)),
      good('edge-1', 0, 1),
      good('edge-2', 0, 1),
      { name: 'bare' },
      { name: 'crashed', container: CRASHED },
      { name: 'crashing', container: { ...CRASHED, state: { terminated: CRASHED.lastState.terminated } } },
      {
        name: 'starting',
        container: { ...CRASHED, state: { running: {} } },
        behaviour: { code: 1, stderr: 'x\n' },
      },
      running('old', {
        code: 2,
        stderr: 'ip-masq-agent: unknown command "status": see --help\n',
      }),
    ];
    const answers = await cluster('odd', members);
    for (const command of COMMANDS) {
      const { code, stdout, stderr } = await run(answers, ...command.split(' '));
      assert.equal(stderr, '');
      assert.equal(code, 1, stdout);
      assert.match(stdout, /^1 node: bare\n {2}no pod of the agent\n/m);
      assert.match(stdout, /^1 node: old\n {2}the agent is too old for this command\n/m);
      assert.match(
        stdout,
        /^3 nodes: crashed, crashing, starting\n {2}the agent crash-loops: exit code 3 \(Error\)\n {2}1 error .*\n {2}ip-masq-a:1:22: error.*\n {2}pods: agent-of-crashed, agent-of-crashing, agent-of-starting\n\n/m,
      );
      assert.ok(stdout.endsWith(` = ${members.length} nodes\n`), stdout);
      assert.ok(stdout.split('\n').length < 40, 'one screen');
      const isTold = command === 'doctor';
      assert.equal(/^2 nodes: edge-1, edge-2\n/m.test(stdout), !isTold, stdout);
      assert.match(stdout, isTold ? /^11 nodes: /m : /^9 nodes: node-0, .*, node-4 and 4 more\n/m);
    }
    const calls = await readFile(join(answers, 'calls'), 'utf8');
    assert.match(
      calls,
      /^--namespace=kube-system exec pod\/agent-of-edge-1 --container=ip-masq-agent -- ip-masq-agent explain --output=json 10\.1\.2\.3 8\.8\.8\.8$/m,
    );
  });

  it('prints every node as JSON that fits the schema', async () => {
    const answers = await cluster('json', [good('a'), good('b', 0, 1), { name: 'bare' }]);
    const { code, stdout } = await run(answers, 'status', '-o', 'json');
    assert.equal(code, 1);
    const value = JSON.parse(stdout);
    const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false, allowUnionTypes: true });
    ajv.addSchema(schema);
    const validate = ajv.getSchema(`${schema.$id}#/$defs/fleet`) ?? assert.fail();
    assert.equal(validate(value), true, JSON.stringify(validate.errors, null, 1));
    assert.equal(value.ok, false);
    const [a, b, bare] = value.nodes;
    assert.deepEqual(a.answer, JSON.parse(pools[0]['status.json'] ?? ''));
    assert.deepEqual(
      [b.node, b.pod, b.daemonSet, b.state, b.code],
      ['b', 'agent-of-b', 'agents', 'answered', 0],
    );
    assert.deepEqual(
      [bare.pod, bare.daemonSet, bare.state, bare.code, bare.answer],
      [null, null, 'no-pod', 1, null],
    );
  });

  it('takes nothing that a node answers for granted', async () => {
    const hostile = '\u001b[2J\u202e::error::';
    const deep = `{"a":${'['.repeat(1000)}${']'.repeat(1000)}}`;
    const odd = ['{}', '[]', 'null', deep, JSON.stringify({ findings: 7 }), hostile];
    const shaped = { findings: [{ kind: hostile, message: `${hostile}\n`, family: { toString: 7 } }] };
    const answers = await cluster('hostile', [
      ...odd.map((output, index) => answering(`n${index}`, 'doctor', output)),
      answering('e1', 'doctor', shaped),
      answering('e2', 'doctor', { findings: [{ kind: hostile, message: hostile }] }),
      running('e3', { refused: true, code: 1, stderr: `Error ${hostile}\n` }),
    ]);
    for (const words of [['doctor'], ['doctor', '-o', 'json']]) {
      const { code, stdout, stderr } = await run(answers, ...words);
      assert.equal(stderr, '');
      assert.equal(code, 1, stdout);
      assert.doesNotMatch(stdout, /\x1b|\u202e/);
    }
    const { stdout } = await run(answers, 'doctor');
    assert.match(stdout, /^3 nodes: n0, n4, e1\n {2}this version of fleet does not know/m);
    assert.match(stdout, /^4 nodes: n1, n2, n3, n5\n {2}the answer is not a JSON object/m);
    assert.match(stdout, / {2}Error \\x1b\[2J/);
  });

  it('prints what it knows when it is interrupted', async () => {
    const answers = await cluster('interrupted', [good('a'), good('b', 60), good('c', 60)]);
    const child = start(answers, ['status', '--parallel=2']);
    const result = ended(child);
    const calls = join(answers, 'calls');
    await eventually(
      () => existsSync(calls) && readFileSync(calls, 'utf8').includes('agent-of-c'),
      () => 'the last node to be asked',
    );
    child.kill('SIGINT');
    const { code, stdout } = await result;
    assert.equal(code, 1);
    assert.match(
      stdout,
      /^1 node: a\n(?:.*\n)*2 nodes: b, c\n {2}not asked, .*interrupted\n\n2 groups: 1 \+ 2 = 3 nodes\n$/,
    );
  });

  it('leaves no file if a bundle is interrupted', async () => {
    const answers = await cluster('unbundled', [good('a'), good('b', 60)]);
    const child = start(answers, ['bundle', join(answers, 'agents.tgz')]);
    const result = ended(child);
    const isWritten = () => readdirSync(answers).some((name) => name.startsWith('agents.tgz'));
    await eventually(isWritten, () => 'the file to begin');
    child.kill('SIGINT');
    const { code, stderr } = await result;
    assert.equal(code, 1);
    assert.match(stderr, /^ip-masq-agent: cannot write \S+: interrupted; no part of it is left\n$/);
    assert.ok(!isWritten());
  });

  it('asks 100 nodes, tells which do not answer in time or too much, and needs little memory', async (t) => {
    let longest = 0;
    const members = Array.from({ length: 100 }, (_, index): Member => {
      const name = `node-${String(index).padStart(3, '0')}`;
      if (index < 3) return running(name, { wait: 600 });
      if (index < 5) return running(name, { bytes: 10 * 2 ** 20 });
      if (index < 6) return answering(name, 'doctor', 'Segmentation fault\n');
      return good(name);
    });
    const answers = await cluster('large', members);
    const child = start(answers, ['doctor', '--timeout=10s']);
    const result = ended(child);
    const timer = setInterval(() => {
      longest = Math.max(longest, peakOf(child.pid));
    }, 100);
    const { code, stdout } = await result;
    clearInterval(timer);
    t.diagnostic(`${longest} MB at the most`);
    assert.equal(code, 1);
    assert.match(stdout, /^3 nodes: node-000, .*\n {2}no answer within 10 s\n/m);
    assert.match(stdout, /^2 nodes: node-003, .*\n {2}the answer is longer than 1 MiB\n/m);
    assert.match(stdout, /^1 node: node-005\n {2}the answer is not a JSON object\n/m);
    assert.match(stdout, /\n4 groups: 1 \+ 2 \+ 3 \+ 94 = 100 nodes\n$/);
    assert.ok(longest > 0 && longest < 150, `${longest} MB`);
  });
});

/** What the commands of an agent say on a node with this config file. */
async function realAnswers(configFile: string): Promise<Answers> {
  await using node = await createNode();
  await node.volume({ 'ip-masq-a': configFile });
  const agent = node.start();
  await agent.logged(/"reason":"start"/);
  const answers: Record<string, string> = {};
  for (const command of COMMANDS) {
    const [name = '', ...operands] = command.split(' ');
    const { code, stdout } = await node.agent(name, '--output=json', ...operands);
    Object.assign(answers, { [`${name}.json`]: stdout, [`${name}.code`]: String(code) });
    JSON.parse(stdout);
  }
  await agent.stop();
  return answers;
}

/** The first `node` of the PATH that npm has not installed. */
function machineNode(): string {
  const paths = (process.env['PATH'] ?? '').split(delimiter).filter((path) => !path.includes('node_modules'));
  const found = [...paths, '/usr/bin', '/usr/local/bin']
    .map((path) => join(path, 'node'))
    .find((path) => existsSync(path));
  return found ?? assert.fail('the machine has no Node.js of its own');
}

/** The most memory that the process had in its own pages and in files, in MB; 0 if it has ended. See proc_pid_status(5). */
function peakOf(pid: number | undefined): number {
  try {
    const [, kB = '0'] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Math.round(Number(kB) / 1000);
  } catch {
    return 0;
  }
}
