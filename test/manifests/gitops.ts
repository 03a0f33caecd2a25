import { cp, readFile, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { KUBERNETES } from './kustomize.ts';

const GITOPS = fileURLToPath(new URL('../../examples/gitops/', import.meta.url));

export const CLUSTERS = ['prod-eu', 'prod-us'] as const;
export const POOLS = ['edge', 'rest'] as const;

/** Copies the directory as people do, with the base of this checkout instead of that of a release. */
export async function copyGitops(to: string): Promise<void> {
  await cp(GITOPS, to, { recursive: true });
  const agent = join(await realpath(to), 'fleet/agent');
  const file = join(agent, 'kustomization.yaml');
  const base = relative(agent, join(await realpath(KUBERNETES), 'base'));
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace(/https:\S+\/examples\/kubernetes\/base\?ref=\S+/, base));
}
