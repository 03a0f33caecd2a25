/** Lists the npm packages in the image and in the archives of a release, with their licences. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A piece of third-party software in the image, with its licence. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** SPDX identifier or expression; undefined if only the texts name the licence. */
  readonly licence: string | undefined;
  readonly licenceTexts: readonly string[];
  /** Digest of its package as in package-lock.json: `sha512-` and base64. */
  readonly integrity: string | undefined;
  /** Name in the National Vulnerability Database, if scanners cannot guess it. */
  readonly cpe?: string;
  /** The names of the packages that it needs. */
  readonly needs: readonly string[];
  /** Software that is built into it: versions by name. */
  readonly parts?: Readonly<Record<string, string>>;
}

/** The part of esbuild's metafile that lists the content of a bundle. */
interface Metafile {
  readonly outputs: Readonly<
    Record<string, { readonly inputs: Readonly<Record<string, { readonly bytesInOutput: number }>> }>
  >;
}

/** The part of package-lock.json that lists what was installed. */
export interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly integrity?: string }>>;
}

/** The directories of the packages that are part of the bundle, such as `node_modules/pino`, sorted. */
export function bundledPackages({ outputs }: Metafile): readonly string[] {
  const directories = Object.values(outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .flatMap(([path]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  return [...new Set(directories)].toSorted();
}

/**
 * The package that is installed in a directory.
 *
 * @param root the directory of package-lock.json
 * @param directory as `bundledPackages` and package-lock.json name it
 * @throws {Error} if its version is not that of package-lock.json, or its licence is unknown
 */
export function npmComponent(root: string, directory: string, { packages }: Lockfile): Component {
  const path = join(root, directory);
  const text = readFileSync(join(path, 'package.json'), 'utf8');
  const { name, version, license: licence, dependencies = {} } = JSON.parse(text);
  const { version: lockedVersion = 'absent', integrity } = packages[directory] ?? {};
  if (lockedVersion !== version)
    throw new Error(`${directory} is ${version}, but ${lockedVersion} in package-lock.json`);
  const texts = readdirSync(path)
    .filter((file) => /^(?:licen[cs]e|copying|notice)[^.]*(?:\.(?:md|txt))?$/i.test(file))
    .toSorted()
    .map((file) => readFileSync(join(path, file), 'utf8'));
  if (texts.length === 0 && typeof licence !== 'string')
    throw new Error(`nothing tells the licence of ${name}`);
  const noText = `The package has no licence text. Its package.json says: ${licence}.\n`;
  return {
    name,
    version,
    licence: typeof licence === 'string' ? licence : undefined,
    licenceTexts: texts.length > 0 ? texts : [noText],
    integrity,
    needs: Object.keys(dependencies),
  };
}

/** The texts of the components' licences. Those of Debian's packages are in /usr/share/doc of the image. */
export function licencesText(components: readonly Component[]): string {
  const rule = '='.repeat(78);
  const sections = components.map(({ name, version, licenceTexts }) => {
    const texts = licenceTexts.map((text) => `${text.trimEnd()}\n`).join('\n');
    return `${rule}\n${name} ${version}\n${rule}\n\n${texts}`;
  });
  return `ip-masq-agent contains third-party software under these licences.\n\n${sections.join('\n')}`;
}
