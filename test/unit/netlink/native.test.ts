import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';

const MODULE = fileURLToPath(new URL('../../../lib/netlink/native.ts', import.meta.url));

/** Loads the native module without a descriptor for it, and again with one. */
const PROGRAM = `
import { closeSync, openSync } from 'node:fs';
const { native } = await import(process.argv[1]);
const opened = [];
try {
  for (;;) opened.push(openSync('/dev/null'));
} catch {}
let refused;
try {
  native();
} catch ({ failure, code }) {
  refused = { failure, code };
}
for (const descriptor of opened) closeSync(descriptor);
native();
console.log(JSON.stringify(refused));
`;

it('a lack of descriptors is no reason to do without the native module for good', () => {
  const args = ['--nofile=64', '--', process.execPath, '--input-type=module', '-e', PROGRAM, MODULE];
  assert.deepEqual(JSON.parse(execFileSync('prlimit', args, { encoding: 'utf8' })), {
    failure: 'failed',
    code: 'EMFILE',
  });
});
