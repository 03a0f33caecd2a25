/** Run as a program, it builds the programs of a cluster where they are not there yet. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../lab/run.ts';
import { goEnvironment, goVersion } from './go.ts';
import { PROGRAMS, TEST_PROGRAMS } from './options.ts';

const SOURCE = fileURLToPath(new URL('.', import.meta.url));
const NAMES = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kube-proxy',
  'kubelet',
  'kubectl',
];
const HOUR_MS = 3_600_000;
/**
 * Kubernetes is built once and runs for minutes: without inlining and without debug information the compiler has a third less
 * to do. Go's own packages, the runtime above all, stay fast: of two patterns that match, the later one counts.
 */
const FAST_TO_BUILD = ['-gcflags=all=-l -dwarf=false', '-gcflags=std=-dwarf=false'];

/** Says what the programs in its directory are built from. */
const STAMP = '.stamp';

/** What is built together, into a directory of its own. */
interface Build {
  readonly what: string;
  readonly directory: string;
  /** A program changes if one of these does. */
  readonly sources: readonly string[];
  /** The arguments of one or more runs of go that build into a directory, without the flags that all have. */
  commands(directory: string): readonly (readonly string[])[];
}

const CLUSTER: Build = {
  what: 'Kubernetes',
  directory: PROGRAMS,
  sources: ['kubernetes/main.go', 'pause/main.go'],
  commands: (directory) => [['build', '-o', `${directory}/`, './kubernetes', './pause']],
};

const TESTS: Build = {
  what: "Kubernetes' own tests",
  directory: TEST_PROGRAMS,
  sources: ['e2e/e2e_test.go'],
  commands: (directory) => [
    ['build', '-o', `${directory}/`, 'k8s.io/kubernetes/test/images/agnhost'],
    // go vet would look at all of Kubernetes.
    ['test', '-c', '-vet=off', '-o', join(directory, 'e2e.test'), './e2e'],
  ],
};

/** Builds the programs of a cluster into bin/cluster/programs, if they are not there. The first time it takes minutes. */
export async function buildPrograms(say: (line: string) => void): Promise<void> {
  await build(CLUSTER, say, async (directory) => {
    for (const name of NAMES) await symlink('kubernetes', join(directory, name));
  });
}

/** Builds Kubernetes' own tests of networks, and the program in the image of their pods, if they are not there. */
export async function buildTests(say: (line: string) => void): Promise<void> {
  await build(TESTS, say, async () => {});
}

async function build(
  { what, directory, sources, commands }: Build,
  say: (line: string) => void,
  finish: (directory: string) => Promise<void>,
): Promise<void> {
  const go = await goVersion();
  const flags = await buildFlags();
  const hash = createHash('sha256').update([go, ...flags].join('\n'));
  for (const file of ['go.mod', 'go.sum', ...sources]) hash.update(await readFile(join(SOURCE, file)));
  const stamp = hash.digest('hex');
  if ((await readFile(join(directory, STAMP), 'utf8').catch(() => undefined)) === stamp) return;
  say(`building ${what} with ${go}; this takes some minutes if Go's build cache is empty`);
  const start = performance.now();
  // A cluster may use the earlier ones, which are there until the new ones are.
  const fresh = `${directory}.new`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { recursive: true });
  for (const [command = '', ...args] of commands(fresh)) {
    const all = [command, '-C', SOURCE, ...flags, ...args];
    const { code, stderr } = await run({ file: 'go', args: all }, goEnvironment(), { timeoutMs: HOUR_MS });
    if (code !== 0) throw new Error(`${what} cannot be built: ${stderr.trim()}`);
  }
  await finish(fresh);
  await writeFile(join(fresh, STAMP), stamp);
  await rm(directory, { recursive: true, force: true });
  await rename(fresh, directory);
  say(`built ${what} in ${Math.round((performance.now() - start) / 1000)} s`);
}

async function buildFlags(): Promise<readonly string[]> {
  const version = /k8s\.io\/kubernetes v(\d+)\.(\d+)\.\S+/.exec(
    await readFile(join(SOURCE, 'go.mod'), 'utf8'),
  );
  if (version === null) throw new Error('go.mod names no version of k8s.io/kubernetes');
  const [gitVersion, gitMajor = '', gitMinor = ''] = [version[0].split(' ')[1], version[1], version[2]];
  // kubelet and kubectl compare these with what the API server says.
  const set = Object.entries({ gitVersion, gitMajor, gitMinor, gitTreeState: 'clean' });
  const values = set.map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`);
  return ['-mod=readonly', ...FAST_TO_BUILD, `-ldflags=-s -w ${values.join(' ')}`];
}

if (import.meta.main)
  try {
    await buildPrograms(console.log);
  } catch (error) {
    console.error(`cluster-programs: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
