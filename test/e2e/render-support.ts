import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach } from 'node:test';
import { createNode, type NodeLab } from './support.ts';

/** Of two owners; the second makes an exception from what the first lists. */
export const SOURCES = {
  'ip-masq-cloud': 'nonMasqueradeCIDRs: [10.0.0.0/14]\n',
  'ip-masq-operator': 'masqueradeCIDRs: [10.1.0.0/16]\nmasqLinkLocal: true\n',
};

/** One for all tests of a file that imports this. Each begins with `SOURCES` and an empty directory for output. */
export let node: NodeLab;

/** The directory for output. */
export let outDir: string;

before(async () => {
  node = await createNode();
  outDir = join(node.dir, 'out');
});

after(() => node[Symbol.asyncDispose]());

beforeEach(async () => {
  await writeSources(SOURCES);
  await rm(outDir, { recursive: true, force: true });
  await mkdir(outDir);
});

/** Makes the config directory hold just these. */
export async function writeSources(texts: Readonly<Record<string, string>>): Promise<void> {
  await rm(node.configDir, { recursive: true, force: true });
  await mkdir(node.configDir);
  for (const [name, text] of Object.entries(texts)) await writeFile(join(node.configDir, name), text);
}
