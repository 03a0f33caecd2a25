import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dump, load } from 'js-yaml';

const BASE = join(import.meta.dirname, '../examples/kubernetes/base');

interface Kustomization {
  readonly namespace: string;
  readonly resources: readonly string[];
  readonly images: readonly [{ readonly name: string; readonly newName: string; readonly newTag: string }];
}

interface KubernetesObject {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
}

/**
 * The text of install.yaml: the objects of the base as kustomize builds them, with an image and with the version as a label. Tests
 * compare it with kustomize. That is not used here, because npm has only an old build of it, by a third party.
 */
export function installManifest(version: string, image: string): string {
  const { namespace, resources, images } = load(read('kustomization.yaml')) as Kustomization;
  const [{ name }] = images;
  const objects = resources.map((file) => {
    const text = read(file).replace(`image: ${name}\n`, `image: ${image}\n`);
    const object = load(text) as KubernetesObject;
    const labels = { ...object.metadata.labels, 'app.kubernetes.io/version': version };
    return dump({ ...object, metadata: { ...object.metadata, namespace, labels } }, { lineWidth: -1 });
  });
  return `# ip-masq-agent ${version}: kubectl apply -f install.yaml
# To upgrade and keep your own ConfigMaps, add --selector='app.kubernetes.io/component!=config'.
${objects.join('---\n')}`;
}

/** The text of examples/ip-masq-agent.yaml: the same, with the image that the base names. */
export function exampleManifest(): string {
  const { images } = load(read('kustomization.yaml')) as Kustomization;
  const [{ newName, newTag }] = images;
  const text = installManifest(newTag, `${newName}:${newTag}`);
  return `# Generated from kubernetes/base by build/docs.ts: the same objects in one file, for those who use no kustomize.
# Write your image to it, then: kubectl create -f examples/ip-masq-agent.yaml
${text.replace(/^#.*\n/gm, '')}`;
}

function read(file: string): string {
  return readFileSync(join(BASE, file), 'utf8');
}
