import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Environment, run, succeed } from '../../lab/run.ts';
import { buildTests } from './build.ts';
import { toolEnvironment } from './environment.ts';
import { makeImage } from './image.ts';
import { type Image, TEST_PROGRAMS } from './options.ts';

/** Kubernetes' own tests of networks. */
export const E2E = join(TEST_PROGRAMS, 'e2e.test');
const AGNHOST = join(TEST_PROGRAMS, 'agnhost');
/** The tests read from it which registry has their images. */
const REGISTRIES = join(TEST_PROGRAMS, 'registries.yaml');
/** What the tests type into a shell in their pods: the published image has it from its Alpine Linux. */
const FROM_MACHINE = ['sh', 'grep', 'cat', 'curl', 'date', 'nc.openbsd', 'seq', 'sleep', 'tr'].map(
  (name) => `/bin/${name}`,
);
/** The cluster has no DNS. */
const NC = fileURLToPath(new URL('nc.sh', import.meta.url));

/** With which the tests look for images, and their kubectl writes to the cluster's directory instead of the working one. */
export const e2eEnvironment = (): Environment => ({
  ...toolEnvironment({ KUBECACHEDIR: process.env['KUBECACHEDIR'] }),
  KUBE_TEST_REPO_LIST: REGISTRIES,
});

/** Builds the tests, and the image of their pods: the nodes need it. */
export async function e2eImage(say: (line: string) => void): Promise<Image> {
  await buildTests(say);
  await writeFile(REGISTRIES, 'promoterE2eRegistry: localhost/e2e\n');
  const images = await succeed(run({ file: E2E, args: ['--list-images'] }, e2eEnvironment()));
  // Some tests, none of these, also need an older one: the list has no order.
  const names = images.split('\n').filter((line) => line.startsWith('localhost/e2e/agnhost:'));
  const name = names.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1);
  if (name === undefined) throw new Error(`the tests name no image of agnhost: ${images}`);
  const files = {
    agnhost: AGNHOST,
    'bin/nc': NC,
    ...Object.fromEntries((await filesOf(FROM_MACHINE)).map((file) => [file.slice(1), file])),
  };
  return await makeImage({ name, files, entrypoint: '/agnhost' }, join(TEST_PROGRAMS, 'agnhost.tar'));
}

/** Programs of this machine with their libraries. */
async function filesOf(programs: readonly string[]): Promise<readonly string[]> {
  const listed = await succeed(run({ file: 'ldd', args: programs }, toolEnvironment()));
  const libraries = [...listed.matchAll(/(?:=> |^\t)(\/\S+) \(0x/gm)].map(([, file = '']) => file);
  return [...programs, ...new Set(libraries)];
}
