/** Writes the file with the licences of all that others have made. */
import type { Component } from './component.ts';

const RULE = '='.repeat(78);

/**
 * The licences of all components, one behind the other.
 *
 * @param common texts that Debian's packages refer to instead of repeating them, by the path that they refer to.
 */
export function licencesText(
  components: readonly Component[],
  common: Readonly<Record<string, string>>,
): string {
  const sections = [
    ...components.map(({ name, version, licenceTexts }) => section(`${name} ${version}`, licenceTexts)),
    ...Object.entries(common).map(([path, text]) => section(path, [text])),
  ];
  return `The image of ip-masq-agent holds software of others under these licences.\n\n${sections.join('\n')}`;
}

/** The paths of common licences, such as /usr/share/common-licenses/GPL-2, that the texts refer to. */
export function commonLicences(components: readonly Component[]): readonly string[] {
  const texts = components.flatMap(({ licenceTexts }) => licenceTexts).join('\n');
  const paths = texts.match(/\/usr\/share\/common-licenses\/[A-Za-z0-9][A-Za-z0-9.-]*[A-Za-z0-9]/g) ?? [];
  return [...new Set(paths)].toSorted();
}

function section(title: string, texts: readonly string[]): string {
  return `${RULE}\n${title}\n${RULE}\n\n${texts.map((text) => `${text.trimEnd()}\n`).join('\n')}`;
}
