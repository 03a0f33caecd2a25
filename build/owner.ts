/** Writes the owner of the repository on GitHub to all files, in the place of OWNER. Usage: node build/owner.ts NAME */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const NAME = 'ip-masq-agent';
const PLACEHOLDER = `OWNER/${NAME}`;

const [owner = ''] = process.argv.slice(2);
if (!/^[a-z\d]+(?:-[a-z\d]+)*$/i.test(owner))
  throw new Error('set OWNER to the name of a user or an organisation, such as OWNER=example');

const search = ['grep', '--files-with-matches', '-I', '-z', '--fixed-strings', PLACEHOLDER] as const;
const found = execFileSync('git', search, { cwd: ROOT, encoding: 'utf8' });
for (const file of found.split('\0').filter((name) => name !== '')) {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const named = text
    // A registry has no capital letters.
    .replaceAll(`ghcr.io/${PLACEHOLDER}`, `ghcr.io/${owner.toLowerCase()}/${NAME}`)
    .replaceAll(PLACEHOLDER, `${owner}/${NAME}`);
  writeFileSync(join(ROOT, file), named);
  console.log(file);
}
