import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';

/** The directories of the packages that are part of the bundle, such as `node_modules/pino`, sorted. */
export function bundledPackages({ outputs }: Pick<Metafile, 'outputs'>): readonly string[] {
  const directories = Object.values(outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .flatMap(([path]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  return [...new Set(directories)].toSorted();
}

/**
 * The texts of the licences of installed packages, each under the name of its package.
 *
 * @throws {Error} if nothing tells the licence of one
 */
export function licencesText(directories: readonly string[]): string {
  const rule = '='.repeat(78);
  const sections = directories.map((directory) => {
    const { name, version, license } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
    const texts = readdirSync(directory)
      .filter((file) => /^(?:licen[cs]e|copying|notice)[^.]*(?:\.(?:md|txt))?$/i.test(file))
      .toSorted()
      .map((file) => readFileSync(join(directory, file), 'utf8').trimEnd());
    if (texts.length === 0 && typeof license !== 'string')
      throw new Error(`nothing tells the licence of ${name}`);
    const noText = `The package has no licence text. Its package.json says: ${license}.`;
    return `${rule}\n${name} ${version}\n${rule}\n\n${texts.join('\n\n') || noText}\n`;
  });
  return `ip-masq-agent contains third-party software under these licences.\n\n${sections.join('\n')}`;
}
