/** Run as a program, it builds the programs of a cluster where they are not there yet. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../lab/run.ts';
import { goEnvironment, goVersion } from './go.ts';
import { PROGRAMS } from './options.ts';

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

/** Builds the programs of a cluster into bin/cluster/programs, if they are not there. The first time it takes minutes. */
export async function buildPrograms(say: (line: string) => void): Promise<void> {
  const go = await goVersion();
  const flags = await buildFlags();
  const sources = ['go.mod', 'go.sum', 'kubernetes/main.go', 'pause/main.go'];
  const hash = createHash('sha256').update([go, ...flags].join('\n'));
  for (const file of sources) hash.update(await readFile(join(SOURCE, file)));
  const stamp = hash.digest('hex');
  const stampFile = join(PROGRAMS, '.stamp');
  if ((await readFile(stampFile, 'utf8').catch(() => undefined)) === stamp) return;
  say(`building Kubernetes with ${go}; this takes some minutes if Go's build cache is empty`);
  const start = performance.now();
  await rm(PROGRAMS, { recursive: true, force: true });
  await mkdir(PROGRAMS, { recursive: true });
  await goBuild(flags);
  for (const name of NAMES) await symlink('kubernetes', join(PROGRAMS, name));
  await writeFile(stampFile, stamp);
  say(`built Kubernetes in ${Math.round((performance.now() - start) / 1000)} s`);
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

async function goBuild(flags: readonly string[]): Promise<void> {
  const args = ['build', '-C', SOURCE, ...flags, '-o', `${PROGRAMS}/`, './kubernetes', './pause'];
  const result = await run({ file: 'go', args }, goEnvironment(), { timeoutMs: HOUR_MS });
  if (result.code !== 0 || !existsSync(join(PROGRAMS, 'pause')))
    throw new Error(`the programs of the cluster cannot be built: ${result.stderr.trim()}`);
}

if (import.meta.main)
  try {
    await buildPrograms(console.log);
  } catch (error) {
    console.error(`cluster-programs: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
