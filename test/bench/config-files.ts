import { writeFile } from 'node:fs/promises';
import { type Files, type TemporaryDirectory, temporaryDirectory } from '../lab/volume.ts';

const OWNERS = [10, 11, 12];

/** CIDRs of each family that each owner has. */
const PER_OWNER = 20;

/** Three config files with 20 CIDRs of each family; up to number 2,047 each number has other CIDRs. */
export function configFiles(number: number): Files {
  const textOf = (owner: number) =>
    list([...ownPrefixes(owner, number, 'IPv4'), ...ownPrefixes(owner, number, 'IPv6')]);
  return Object.fromEntries(OWNERS.map((owner) => [`ip-masq-${owner}`, textOf(owner)]));
}

/** One octet of IPv4 holds the low 8 bits of the number; the octet of the index has room for 3 more. */
function ownPrefixes(owner: number, number: number, family: 'IPv4' | 'IPv6'): readonly string[] {
  return Array.from({ length: PER_OWNER }, (_, index) =>
    family === 'IPv4'
      ? `${owner}.${index + PER_OWNER * ((number >> 8) & 7)}.${number & 255}.0/24`
      : `fd00:${owner}:${index}:${number.toString(16)}::/64`,
  );
}

function list(prefixes: readonly string[]): string {
  if (prefixes.length === 0) return 'nonMasqueradeCIDRs: []\n';
  return `nonMasqueradeCIDRs:\n${prefixes.map((prefix) => `  - ${prefix}\n`).join('')}`;
}

/** A config file of 1 MiB holds this many CIDRs, and some more. */
const PER_FILE = 25_000;

/** Config files with so many IPv4 CIDRs in all, none next to another. */
export function manyFiles(count: number): Files {
  const prefixes = Array.from({ length: count }, (_, index) => {
    const address = 11 * 2 ** 24 + index * 32;
    return `${[24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.')}/28`;
  });
  return Object.fromEntries(
    Array.from({ length: Math.max(1, Math.ceil(count / PER_FILE)) }, (_, configFile) => {
      const own = prefixes.slice(configFile * PER_FILE, (configFile + 1) * PER_FILE);
      return [`ip-masq-${configFile}`, `cidrLimit: ${Math.min(PER_FILE, count)}\n${list(own)}`];
    }),
  );
}

/** A config directory with these files. */
export async function writeFiles(files: Files): Promise<TemporaryDirectory> {
  const dir = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) await writeFile(`${dir.path}/${name}`, text);
  return dir;
}
