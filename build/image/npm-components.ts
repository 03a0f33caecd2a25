/** Finds out which npm packages are in a bundle, and under which licences. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PackageURL } from 'packageurl-js';
import type { Component } from './component.ts';

/** The part of esbuild's metafile that tells what went into a bundle. */
export interface Metafile {
  readonly outputs: Readonly<
    Record<string, { readonly inputs: Readonly<Record<string, { readonly bytesInOutput: number }>> }>
  >;
}

/** The part of package-lock.json that tells what was installed. */
export interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly integrity?: string }>>;
}

/** The directories of the packages of which anything is in the bundle, such as `node_modules/pino`, in order. */
export function bundledPackages({ outputs }: Metafile): readonly string[] {
  const directories = Object.values(outputs)
    .flatMap(({ inputs }) => Object.entries(inputs))
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
    .filter((directory) => directory !== undefined);
  return [...new Set(directories)].toSorted();
}

/**
 * What is installed in a directory, checked against the lockfile.
 *
 * @param root the project, which holds the directory.
 * @param directory as `bundledPackages` and the lockfile name it.
 * @throws where it is not what the lockfile says.
 */
export function npmComponent(root: string, directory: string, { packages }: Lockfile): Component {
  const path = join(root, directory);
  const manifest = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const { name, version, license: licence } = manifest;
  const locked = packages[directory];
  if (locked?.version !== version)
    throw new Error(`${directory} is ${version}, but ${locked?.version ?? 'absent'} in package-lock.json`);
  const [scope, bare] = name.startsWith('@') ? name.split('/') : [undefined, name];
  return {
    name,
    version,
    purl: new PackageURL('npm', scope, bare, version).toString(),
    licence: typeof licence === 'string' ? licence : undefined,
    licenceTexts: licenceTexts(path, name, licence),
    ...(locked?.integrity === undefined ? {} : { integrity: locked.integrity }),
  };
}

function licenceTexts(path: string, name: string, licence: unknown): readonly string[] {
  const files = readdirSync(path).filter((file) =>
    /^(?:licen[cs]e|copying|notice)[^.]*(?:\.(?:md|txt))?$/i.test(file),
  );
  if (files.length > 0) return files.toSorted().map((file) => readFileSync(join(path, file), 'utf8'));
  if (typeof licence !== 'string') throw new Error(`nothing tells the licence of ${name}`);
  return [`The package has no licence text. Its package.json says: ${licence}.\n`];
}
