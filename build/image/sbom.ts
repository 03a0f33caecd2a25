/** Writes the software bill of materials: CycloneDX 1.6, in JSON. */
import { createHash } from 'node:crypto';
import type { Component } from './components.ts';

interface Subject {
  readonly version: string;
  readonly licence: string;
  /** Seconds since the epoch: the time of the build. */
  readonly time: number;
  readonly architecture: string;
}

const NAME = 'ip-masq-agent';

interface Dependency {
  readonly ref: string;
  readonly dependsOn: readonly string[];
}

/**
 * The bill of materials of the image: the agent and its npm packages. Two lines are placeholders for Debian's packages,
 * which layers.sh fills in.
 */
export function sbom(
  { version, licence, time, architecture }: Subject,
  components: readonly Component[],
): string {
  const models = components.map(modelOf);
  const agent = { type: 'container', name: NAME, version, 'bom-ref': NAME, licenses: licences(licence) };
  const bom = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: serialNumber(`${version} ${time} ${architecture}`),
    version: 1,
    metadata: {
      timestamp: new Date(time * 1000).toISOString(),
      component: agent,
    },
    components: ['@DEBIAN_COMPONENTS@', ...models],
    dependencies: dependenciesOf(components),
  };
  return `${JSON.stringify(bom, undefined, 2)}\n`;
}

/** The bill of materials of an archive, made of that of the image: the agent and its npm packages, without Debian's. */
export function sbomWithoutDebian(text: string): string {
  const bom = JSON.parse(text);
  const { timestamp, component } = bom.metadata;
  const isOfDebian = (purl: string) => purl.startsWith('pkg:deb/');
  const archive = {
    ...bom,
    metadata: { timestamp, component: { ...component, type: 'application' } },
    components: bom.components.filter(({ purl }: { purl: string }) => !isOfDebian(purl)),
    dependencies: bom.dependencies.map(({ ref, dependsOn }: Dependency) => ({
      ref,
      dependsOn: dependsOn.filter((purl) => !isOfDebian(purl)),
    })),
  };
  return `${JSON.stringify(archive, undefined, 2)}\n`;
}

/** Who needs whom: the agent what no other package needs, and Debian's packages. */
function dependenciesOf(components: readonly Component[]): readonly object[] {
  const of = (needed: (name: string) => boolean) => components.filter(({ name }) => needed(name)).map(purlOf);
  const all = new Set(components.flatMap(({ needs }) => needs));
  return [
    { ref: NAME, dependsOn: ['@DEBIAN_REFERENCES@', ...of((name) => !all.has(name))] },
    ...components.map((one) => ({ ref: purlOf(one), dependsOn: of((name) => one.needs.includes(name)) })),
  ];
}

function purlOf({ name, version }: Component): string {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}

/** A UUID that two builds of one commit share. */
function serialNumber(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex');
  const [a, b, c, d] = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(13, 16), hex.slice(17, 20)];
  return `urn:uuid:${a}-${b}-8${c}-8${d}-${hex.slice(20, 32)}`;
}

function modelOf(component: Component) {
  const { name, version, licence, integrity, cpe, parts = {} } = component;
  const purl = purlOf(component);
  return {
    type: 'library',
    name,
    version,
    'bom-ref': purl,
    purl,
    cpe,
    licenses: licences(licence),
    hashes: hashes(integrity),
    components: Object.entries(parts).map(([part, version]) => ({
      type: 'library',
      name: part,
      version,
      'bom-ref': `${purl}#${part}`,
    })),
  };
}

/** Licences as CycloneDX writes them. An SPDX expression has spaces, an SPDX identifier has none. */
function licences(licence: string | undefined): readonly object[] {
  if (licence === undefined) return [];
  return [licence.includes(' ') ? { expression: licence } : { license: { id: licence } }];
}

/** Converts npm's base64 (Subresource Integrity) to hexadecimal digits. */
function hashes(integrity: string | undefined): readonly object[] {
  const base64 = /^sha512-(\S+)$/.exec(integrity ?? '')?.[1];
  if (base64 === undefined) return [];
  return [{ alg: 'SHA-512', content: Buffer.from(base64, 'base64').toString('hex') }];
}
