import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeOutput } from '../../../cmd/ip-masq-agent/render/output-file.ts';
import { SystemError } from '../../../lib/text/error.ts';
import { asNobody, IS_ROOT } from '../../lab/user.ts';
import { dir, out, useScratch } from './scratch.ts';

const MAKE =
  'make the directory <dir>, or mount a volume there; if it is there, let one program write the file';
const NAME = 'give --output-file another file';
const PERMIT = 'give this user the right to create and rename files in <dir>';

const OBSTACLES: readonly (readonly [what: string, make: () => Promise<unknown>, says: string])[] = [
  [
    'its directory is missing',
    () => rm(dir, { recursive: true }),
    `ENOENT: no such file or directory; ${MAKE}`,
  ],
  [
    'its directory is a file',
    () => rm(dir, { recursive: true }).then(() => writeFile(dir, '')),
    `ENOTDIR: not a directory; ${MAKE}`,
  ],
  ['it is a directory', () => mkdir(out), `it is a directory; ${NAME}`],
  [
    'it is a link',
    () => symlink('elsewhere', out),
    'it is a link; remove it, or set --output-file to the file that it leads to',
  ],
  [
    'it is a pipe, which nobody writes to',
    async () => execFileSync('mkfifo', [out]),
    `it is not a regular file; ${NAME}`,
  ],
  ['its directory is read-only', () => chmod(dir, 0o555), `EACCES: permission denied; ${PERMIT}`],
];

describe('an output file that cannot be written is an error that says what to do, and nothing changes:', () => {
  useScratch();

  for (const [what, make, says] of OBSTACLES) {
    it(what, async () => {
      await make();
      const before = await readdir(dir).catch(() => undefined);
      const expected = `cannot write ${out}: ${says.replaceAll('<dir>', dir)}`;
      assert.equal(await asNobody(() => message(writeOutput(out, 'new\n'))), expected);
      assert.deepEqual(await readdir(dir).catch(() => undefined), before);
    });
  }

  it('it can be read but not removed', async () => {
    await writeFile(out, 'old\n');
    await chmod(dir, 0o555);
    const says = `cannot remove ${out}: EACCES: permission denied; ${PERMIT.replace('<dir>', dir)}`;
    assert.equal(await asNobody(() => message(writeOutput(out, undefined))), says);
    assert.equal(await readFile(out, 'utf8'), 'old\n');
  });
});

const MOUNTS = [
  [
    'no space is left',
    'mount -t tmpfs -o size=8k none .',
    'ENOSPC: no space left on device; free space in <dir>',
    '',
  ],
  [
    'the file system is read-only',
    'mount -t tmpfs -o ro none .',
    'EROFS: read-only file system; mount <dir> writable',
    '',
  ],
  [
    'the file alone is mounted',
    'echo old > out && mount --bind out out',
    'EBUSY: resource busy or locked; mount the directory <dir> instead of the single file, which cannot be replaced while it is a mount point',
    'out',
  ],
] as const;

/** Runs a command that may mount: nobody else sees what it mounts. */
const PRIVATE_MOUNTS = ['--mount', ...(IS_ROOT ? [] : ['--user', '--map-root-user'])];

describe('a mount that is in the way is an error that says what to do, and leaves nothing behind:', {
  skip: whyNoMounts(),
}, () => {
  useScratch();

  const module = fileURLToPath(new URL('../../../cmd/ip-masq-agent/render/output-file.ts', import.meta.url));
  const program = `import { readdirSync } from 'node:fs';
    import { writeOutput } from ${JSON.stringify(module)};
    const dir = process.argv[1];
    const said = await writeOutput(dir + '/out', 'x'.repeat(10000)).catch((error) => error.message);
    console.log(JSON.stringify([said, readdirSync(dir).join()]));`;

  for (const [what, script, says, left] of MOUNTS) {
    it(what, () => {
      const shell = `cd "$1" && ${script} && exec "$2" --input-type=module -e "$3" "$1"`;
      const args = ['sh', '-c', shell, 'sh', dir, process.execPath, program];
      const stdout = execFileSync('unshare', [...PRIVATE_MOUNTS, ...args], { encoding: 'utf8' });
      const expected = `cannot write ${dir}/out: ${says.replaceAll('<dir>', dir)}`;
      assert.deepEqual(JSON.parse(stdout), [expected, left]);
    });
  }
});

/** Why nothing can be mounted here; false if it can. */
function whyNoMounts(): string | false {
  const args = [...PRIVATE_MOUNTS, 'mount', '-t', 'tmpfs', 'none', '/tmp'];
  const { status, stderr } = spawnSync('unshare', args, { encoding: 'utf8' });
  return status === 0 ? false : `this user cannot mount here: ${stderr}`;
}

async function message(running: Promise<unknown>): Promise<string> {
  const error = await running.catch((error: unknown) => error);
  assert.ok(error instanceof SystemError, String(error));
  return error.message;
}
