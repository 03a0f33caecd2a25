/** Writes the software bill of materials: CycloneDX 1.6, in JSON. */
import { Enums, Models, Serialize, SPDX, Spec } from '@cyclonedx/cyclonedx-library';
import type { Component } from './component.ts';

export interface Subject {
  readonly version: string;
  readonly licence: string;
  /** Seconds since the epoch: the time that is written as that of the build. */
  readonly time: number;
  /** What else is to be said, values by name. */
  readonly properties: Readonly<Record<string, string>>;
}

const NAME = 'ip-masq-agent';

/** The bill of the image: the agent, and what it is made of and comes with. The same input gives the same text. */
export function sbom(subject: Subject, components: readonly Component[]): string {
  const agent = new Models.Component(Enums.ComponentType.Container, NAME, {
    bomRef: NAME,
    version: subject.version,
    licenses: licences(subject.licence),
  });
  const bom = new Models.Bom({
    metadata: new Models.Metadata({
      timestamp: new Date(subject.time * 1000),
      component: agent,
      properties: new Models.PropertyRepository(
        Object.entries(subject.properties).map(
          ([name, value]) => new Models.Property(`${NAME}:${name}`, value),
        ),
      ),
    }),
  });
  for (const component of components) {
    const model = modelOf(component);
    bom.components.add(model);
    agent.dependencies.add(model.bomRef);
  }
  const normalizers = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6);
  return `${new Serialize.JsonSerializer(normalizers).serialize(bom, { sortLists: true, space: 2 })}\n`;
}

function modelOf({ name, version, purl, cpe, licence, integrity, holds = {} }: Component): Models.Component {
  const parts = Object.entries(holds).map(
    ([part, version]) =>
      new Models.Component(Enums.ComponentType.Library, part, { bomRef: `${purl}#${part}`, version }),
  );
  return new Models.Component(Enums.ComponentType.Library, name, {
    bomRef: purl,
    version,
    purl,
    ...(cpe === undefined ? {} : { cpe }),
    licenses: licences(licence),
    hashes: hashes(integrity),
    components: new Models.ComponentRepository(parts),
  });
}

function licences(expression: string | undefined): Models.LicenseRepository {
  if (expression === undefined) return new Models.LicenseRepository();
  return new Models.LicenseRepository([
    SPDX.isSupportedSpdxId(expression)
      ? new Models.SpdxLicense(expression)
      : new Models.LicenseExpression(expression),
  ]);
}

/** From base64, as npm writes it (Subresource Integrity), to hexadecimal digits. */
function hashes(integrity: string | undefined): Models.HashDictionary {
  const base64 = /^sha512-(\S+)$/.exec(integrity ?? '')?.[1];
  if (base64 === undefined) return new Models.HashDictionary();
  return new Models.HashDictionary([
    [Enums.HashAlgorithm['SHA-512'], Buffer.from(base64, 'base64').toString('hex')],
  ]);
}
