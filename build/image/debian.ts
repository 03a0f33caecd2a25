/** Reads dpkg's database, as deb-control(5) and dpkg-query(1) describe it. */

/** A paragraph of `/var/lib/dpkg/status`. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  /** What it needs: each entry is a list of alternatives, by name and without versions. */
  readonly depends: readonly (readonly string[])[];
  /** Names that it stands in for. */
  readonly provides: readonly string[];
  /** The paragraph as it is. */
  readonly paragraph: string;
}

/** The packages of a status file that are unpacked; what was removed but for its configuration is left out. */
export function parseStatus(text: string): readonly DebianPackage[] {
  return text
    .split(/\n{2,}/)
    .filter((paragraph) => paragraph.trim() !== '')
    .map((paragraph) => ({ paragraph, fields: parseFields(paragraph) }))
    .filter(({ fields }) => / (?:installed|unpacked)$/.test(fields.get('status') ?? ''))
    .map(({ paragraph, fields }) => {
      const [name, version] = [needed(fields, 'package'), needed(fields, 'version')];
      return {
        name,
        version,
        architecture: needed(fields, 'architecture'),
        depends: [...relations(fields.get('pre-depends')), ...relations(fields.get('depends'))],
        provides: relations(fields.get('provides')).flat(),
        paragraph,
      };
    });
}

/**
 * The packages of those names and all that they depend on, by name.
 *
 * @throws where one is not there.
 */
export function withDependencies(
  packages: readonly DebianPackage[],
  names: readonly string[],
): readonly DebianPackage[] {
  const found = new Set<DebianPackage>();
  const add = (alternatives: readonly string[], needer: string) => {
    const chosen = alternatives
      .map((name) => packages.find((one) => one.name === name || one.provides.includes(name)))
      .find((one) => one !== undefined);
    if (chosen === undefined)
      throw new Error(`the package ${alternatives.join(' or ')} is missing; ${needer} needs it`);
    if (found.has(chosen)) return;
    found.add(chosen);
    for (const next of chosen.depends) add(next, chosen.name);
  };
  for (const name of names) add([name], 'the image');
  return [...found].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Field values by their names in lower case; lines that continue a field stay in it. */
function parseFields(paragraph: string): ReadonlyMap<string, string> {
  return new Map(
    [...paragraph.matchAll(/^([^\s:]+):(.*(?:\n[ \t].*)*)/gm)].map(([, name = '', value = '']) => [
      name.toLowerCase(),
      value.trim(),
    ]),
  );
}

function needed(fields: ReadonlyMap<string, string>, name: string): string {
  const value = fields.get(name);
  if (value === undefined) throw new Error(`a paragraph of the dpkg status has no field ${name}`);
  return value;
}

/** `a (>= 1), b:any | c` means a, and b or c. */
function relations(field = ''): readonly (readonly string[])[] {
  return field
    .split(',')
    .map((relation) => relation.split('|').map((name) => name.trim().replace(/[\s:(].*$/s, '')))
    .filter(([first]) => first !== '');
}
