import packageJson from '../package.json' with { type: 'json' };

/** The repository on GitHub as OWNER/NAME, of which `make owner` sets the owner. */
export const REPOSITORY = packageJson.repository.replace('github:', '');

/** Where the schema of this name is once the repository is published. */
export function schemaAddress(name: string): string {
  return `https://raw.githubusercontent.com/${REPOSITORY}/main/schemas/${name}.schema.json`;
}
