/**
 * Writes what is the project's own in the image to OUT, for Dockerfile.in: below `agent` what a new version changes, below `node` the
 * native module. PACKAGES is where the npm packages of the image's CPU are installed.
 * Usage: node build/image.ts VERSION COMMIT PACKAGES OUT
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bundle } from './bundle.ts';
import { packedTexts } from './code-cache.ts';
import { bundledPackages, licencesText } from './licences.ts';

const [version = '', commit = '', packages = '', out = ''] = process.argv.slice(2);
const [native] = globSync(join(packages, 'node_modules/@koromix/koffi-linux-*/linux_*/koffi.node'));
if (native === undefined) throw new Error(`npm has installed no native module in ${packages}`);

copyFileSync(native, made('node/usr/lib/ip-masq-agent/koffi.node'));
const file = made('agent/usr/lib/ip-masq-agent/ip-masq-agent');
const metafile = await bundle({ version, commit, file, interpreter: '/usr/bin/node', pack: packedTexts });
symlinkSync('../lib/ip-masq-agent/ip-masq-agent', made('agent/usr/bin/ip-masq-agent'));
const program = 'ip-masq-ranges';
const otherFile = made(`agent/usr/lib/${program}/${program}`);
const other = await bundle({ program, version, commit, file: otherFile, interpreter: '/usr/bin/node' });
symlinkSync(`../lib/${program}/${program}`, made(`agent/usr/bin/${program}`));
copyFileSync('LICENSE', made('agent/usr/share/doc/ip-masq-agent/LICENSE'));
// The native module's package has no text of its licence.
const licences = [
  licencesText([
    ...new Set([...bundledPackages(metafile), ...bundledPackages(other), dirname(dirname(native))]),
  ]),
  readFileSync(join(import.meta.dirname, 'koffi-licence.txt'), 'utf8'),
];
writeFileSync(made('agent/usr/share/doc/ip-masq-agent/THIRD-PARTY-LICENCES'), licences.join('\n'));
writeFileSync(made('agent/usr/share/sbom/ip-masq-agent.cdx.json'), billOfMaterials());

/** The path of a file in OUT, in a directory that this creates. */
function made(path: string): string {
  const file = join(out, path);
  mkdirSync(dirname(file), { recursive: true });
  return file;
}

/** What npm has installed of what the agent needs, without the number and the time that would be others in each build. */
function billOfMaterials(): string {
  const args = ['sbom', '--omit=dev', '--sbom-format=cyclonedx'];
  const bom = JSON.parse(execFileSync('npm', args, { cwd: packages, encoding: 'utf8' }));
  const component = { ...bom.metadata.component, name: 'ip-masq-agent', version };
  const metadata = { ...bom.metadata, timestamp: undefined, component };
  return `${JSON.stringify({ ...bom, serialNumber: undefined, metadata }, undefined, 2)}\n`;
}
