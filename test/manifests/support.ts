import assert from 'node:assert/strict';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { loadAll } from 'js-yaml';
import { temporaryDirectory } from '../lab/volume.ts';
import type { KubernetesObject } from './documents.ts';
import { type Builder, buildWith, documentsOf, findBuilders, KUBERNETES } from './kustomize.ts';

/** Every program at hand that builds kustomizations. */
export const builders = await findBuilders();
export const [builder = assert.fail('no builder')] = builders;

/** What is applied for a kustomization of the examples, with components on it. */
export function objectsOf(
  path: string,
  components: readonly string[] = [],
): Promise<readonly KubernetesObject[]> {
  return objectsBy(builder, path, components);
}

/** As `objectsOf`, built by one program. Fails where readers of YAML do not agree on what it has built. */
export async function objectsBy(
  builder: Builder,
  path: string,
  components: readonly string[] = [],
): Promise<readonly KubernetesObject[]> {
  const { yaml11, yaml12 } = documentsOf(await built(builder, path, components));
  assert.deepEqual(yaml11, yaml12, 'YAML 1.1 and 1.2');
  return yaml11 as KubernetesObject[];
}

/**
 * What is applied for a kustomization that somebody writes.
 *
 * @param write its text; it gets the way from it to the examples
 */
export async function objectsFrom(write: (examples: string) => string): Promise<readonly KubernetesObject[]> {
  await using temporary = await temporaryDirectory();
  const dir = join(await realpath(temporary.path), 'mine');
  await mkdir(dir);
  await writeFile(join(dir, 'kustomization.yaml'), write(relative(dir, await realpath(KUBERNETES))));
  return loadAll(await builder.build(dir)) as readonly KubernetesObject[];
}

const texts = new Map<string, Promise<string>>();

/** A build takes up to a second: it is done once. */
function built(builder: Builder, path: string, components: readonly string[]): Promise<string> {
  const key = [builder.name, path, ...components].join(' ');
  const text =
    texts.get(key) ??
    (components.length === 0 ? builder.build(join(KUBERNETES, path)) : buildWith(builder, path, components));
  texts.set(key, text);
  return text;
}
