// Runs in the namespaces of a stand-in for the machine: `machine-setup.ts STORE BIN`. What is written to any directory but BIN
// is then found below STORE.
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { cover, mount } from './cover.ts';

/** File systems of the kernel. */
const SPECIAL = ['dev', 'proc', 'sys'];

const [, , store = '', bin = ''] = process.argv;
mount('-t', 'tmpfs', 'tmpfs', store);
const kept = join(store, 'bin');
mkdirSync(kept);
mount('--bind', bin, kept);
for (const name of readdirSync('/'))
  if (!SPECIAL.includes(name) && `/${name}` !== store) cover(`/${name}`, store);
mount('--bind', kept, bin);
