import { cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, succeed } from '../../lab/run.ts';
import { goEnvironment } from './go.ts';
import { CLUSTER_BIN } from './options.ts';

const OWN = fileURLToPath(new URL('.', import.meta.url));
const SOURCES = ['kubernetes', 'pause', 'e2e'];
const PATIENCE_MS = 600_000;

/**
 * The directory of the Go module that Kubernetes is built from: that of the repository, or, if another version is wanted, a copy that
 * requires it. Go checks the sums of what the copy downloads in its public database.
 *
 * @param wanted such as `1.36.3`
 */
export async function kubernetesModule(wanted: string): Promise<string> {
  const goMod = await readFile(join(OWN, 'go.mod'), 'utf8');
  const text = withVersion(goMod, wanted);
  if (text === goMod) return OWN;
  const directory = join(CLUSTER_BIN, `kubernetes-${wanted.replace('v', '')}`);
  const origin = join(directory, 'go.mod.origin');
  if ((await readFile(origin, 'utf8').catch(() => undefined)) !== text) {
    const fresh = `${directory}.new`;
    await rm(fresh, { recursive: true, force: true });
    await mkdir(fresh, { recursive: true });
    for (const source of SOURCES) await cp(join(OWN, source), join(fresh, source), { recursive: true });
    await writeFile(join(fresh, 'go.mod'), text);
    const args = ['-C', fresh, 'mod', 'tidy'];
    await succeed(run({ file: 'go', args }, goEnvironment(), { timeoutMs: PATIENCE_MS }));
    await writeFile(join(fresh, 'go.mod.origin'), text);
    await rm(directory, { recursive: true, force: true });
    await rename(fresh, directory);
  }
  return directory;
}

/**
 * The text of go.mod with another version of Kubernetes, which then says the versions of all else, etcd among them.
 *
 * @param wanted none for that of the text
 */
function withVersion(goMod: string, wanted: string): string {
  const [, number = ''] = /^v?1\.(\d+\.\d+)$/.exec(wanted) ?? [];
  if (wanted === '' || goMod.includes(`\tk8s.io/kubernetes v1.${number}\n`)) return goMod;
  if (number === '') throw new Error(`KUBERNETES=${wanted} is not a version: set one such as 1.36.3`);
  return goMod
    .replaceAll(/^\t.* \/\/ indirect\n/gm, '')
    .replaceAll(/^\t(?!k8s\.io).*\n/gm, '')
    .replaceAll(/ v([01])\.\d+\.\d+$/gm, ` v$1.${number}`);
}
