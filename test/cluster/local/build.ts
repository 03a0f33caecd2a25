/** Run as a program, it builds the programs of a cluster where they are not there yet; with the argument `helm`, Helm. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../lab/run.ts';
import { goEnvironment, goVersion } from './go.ts';
import { kubernetesModule } from './module.ts';
import { HELM_PROGRAM, PROGRAMS, TEST_PROGRAMS } from './options.ts';

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
  /** The directory of the Go module. */
  module(): Promise<string>;
  /** The value of -ldflags, from the text of go.mod. */
  link(goMod: string): string;
  /** A program changes if one of these does, beside go.mod and go.sum. */
  readonly sources: readonly string[];
  /** The arguments of one or more runs of go that build into a directory, without the flags that all have. */
  commands(directory: string): readonly (readonly string[])[];
}

const ownModule = () => kubernetesModule(process.env['KUBERNETES'] ?? '');

const CLUSTER: Build = {
  what: 'Kubernetes',
  directory: PROGRAMS,
  module: ownModule,
  link: kubernetesVersion,
  sources: ['kubernetes/main.go', 'pause/main.go'],
  commands: (directory) => [['build', '-o', `${directory}/`, './kubernetes', './pause']],
};

const TESTS: Build = {
  what: "Kubernetes' own tests",
  directory: TEST_PROGRAMS,
  module: ownModule,
  link: kubernetesVersion,
  sources: ['e2e/e2e_test.go'],
  commands: (directory) => [
    ['build', '-o', `${directory}/`, 'k8s.io/kubernetes/test/images/agnhost'],
    // go vet would look at all of Kubernetes.
    ['test', '-c', '-vet=off', '-o', join(directory, 'e2e.test'), './e2e'],
  ],
};

const HELM: Build = {
  what: 'Helm',
  directory: HELM_PROGRAM,
  module: async () => join(SOURCE, 'helm'),
  link: helmVersions,
  sources: [],
  commands: (directory) => [['build', '-o', `${directory}/`, 'helm.sh/helm/v3/cmd/helm']],
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

/** Builds Helm, if it is not there. */
async function buildHelm(say: (line: string) => void): Promise<void> {
  await build(HELM, say, async () => {});
}

async function build(
  { what, directory, module: find, link, sources, commands }: Build,
  say: (line: string) => void,
  finish: (directory: string) => Promise<void>,
): Promise<void> {
  const go = await goVersion();
  const module = await find();
  const goMod = await readFile(join(module, 'go.mod'), 'utf8');
  const flags = ['-mod=readonly', ...FAST_TO_BUILD, `-ldflags=-s -w ${link(goMod)}`];
  const hash = createHash('sha256').update([go, ...flags].join('\n'));
  for (const file of ['go.mod', 'go.sum', ...sources]) hash.update(await readFile(join(module, file)));
  const stamp = hash.digest('hex');
  if ((await readFile(join(directory, STAMP), 'utf8').catch(() => undefined)) === stamp) return;
  say(`building ${what} with ${go}; this takes some minutes if Go's build cache is empty`);
  const start = performance.now();
  // A cluster may use the earlier ones, which are there until the new ones are.
  const fresh = `${directory}.new`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { recursive: true });
  for (const [command = '', ...args] of commands(fresh)) {
    const all = [command, '-C', module, ...flags, ...args];
    const { code, stderr } = await run({ file: 'go', args: all }, goEnvironment(), { timeoutMs: HOUR_MS });
    if (code !== 0) throw new Error(`${what} cannot be built: ${stderr.trim()}`);
  }
  await finish(fresh);
  await writeFile(join(fresh, STAMP), stamp);
  await rm(directory, { recursive: true, force: true });
  await rename(fresh, directory);
  say(`built ${what} in ${Math.round((performance.now() - start) / 1000)} s`);
}

/** kubelet and kubectl compare these with what the API server says. */
function kubernetesVersion(goMod: string): string {
  const [gitVersion, gitMajor, gitMinor] = versionOf('k8s.io/kubernetes', goMod);
  const set = Object.entries({ gitVersion, gitMajor, gitMinor, gitTreeState: 'clean' });
  return set.map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`).join(' ');
}

/** Its own version, and that of Kubernetes for which it renders without a cluster. */
function helmVersions(goMod: string): string {
  const [version] = versionOf('helm.sh/helm/v3', goMod);
  const [, , minor] = versionOf('k8s.io/client-go', goMod);
  const ofCapabilities = 'helm.sh/helm/v3/pkg/chartutil.k8sVersion';
  return `-X helm.sh/helm/v3/internal/version.version=${version} -X ${ofCapabilities}Major=1 -X ${ofCapabilities}Minor=${minor}`;
}

function versionOf(module: string, goMod: string): readonly [version: string, major: string, minor: string] {
  const [, version = '', major = '', minor = ''] =
    new RegExp(`^(?:require|\\t).*${module} (v(\\d+)\\.(\\d+)\\.\\S+)`, 'm').exec(goMod) ?? [];
  if (version === '') throw new Error(`go.mod names no version of ${module}`);
  return [version, major, minor];
}

if (import.meta.main)
  try {
    const wanted = process.argv[2] === 'helm' ? buildHelm : buildPrograms;
    await wanted(console.log);
  } catch (error) {
    console.error(`cluster-programs: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
