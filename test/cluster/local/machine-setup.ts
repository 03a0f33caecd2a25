// Runs in the namespaces of a stand-in for the machine: `machine-setup.ts STORE BIN`. What is written to any directory but BIN
// is then found below STORE.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cover, mount } from './cover.ts';

/** File systems of the kernel. */
const SPECIAL = ['dev', 'proc', 'sys'];

const [, , store = '', bin = ''] = process.argv;
// Other tests of this project name network namespaces there. The names, which are mounts, would go when those tests end.
if (/ \/run\/netns /.test(readFileSync('/proc/self/mountinfo', 'utf8')))
  execFileSync('umount', ['--recursive', '--lazy', '/run/netns']);
mount('-t', 'tmpfs', 'tmpfs', store);
const kept = join(store, 'bin');
mkdirSync(kept);
mount('--bind', bin, kept);
for (const name of readdirSync('/'))
  if (!SPECIAL.includes(name) && `/${name}` !== store) cover(`/${name}`, store);
mount('--bind', kept, bin);
