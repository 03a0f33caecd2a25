import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  closeSync,
  constants,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { temporaryDirectory } from '../lab/volume.ts';
import type { Line, Plan } from './guest.ts';
import type { Machine } from './machines.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The exit code of fetch.sh. */
const CANNOT_DOWNLOAD = 75;
const MEMORY_MIB = 2048;

/** Some machines have /dev/kvm, but no processor for it: there a virtual machine never begins. */
const HAS_KVM =
  /^flags\s.* (?:svm|vmx) /m.test(readFileSync('/proc/cpuinfo', 'utf8')) &&
  isAccessible('/dev/kvm', constants.R_OK | constants.W_OK);
/**
 * The clock of an emulated machine counts its instructions, one per nanosecond: so for what runs in it, it is always as fast,
 * however slow the emulation is, and no time limit of a test ends because of that. It stands in for real time only while
 * the machine has something to do.
 */
const PROCESSOR = HAS_KVM
  ? ['-accel', 'kvm', '-smp', '2']
  : ['-accel', 'tcg', '-icount', 'shift=0,sleep=on', '-smp', '1'];

/** What a run of a machine has shown. */
export interface Run {
  readonly lines: readonly Line[];
  /** The end of what the machine has printed. */
  readonly console: string;
  readonly seconds: number;
}

/**
 * The directory with the kernel of a release of Debian. Downloads it if it is not there yet.
 *
 * @throws {DownloadError} if it cannot be downloaded
 */
export function kernelOf(suite: string): string {
  const directory = join(ROOT, 'bin/kernels', suite);
  script('fetch.sh', suite, directory);
  return directory;
}

/**
 * Boots the machine, and ends it when all tests have run or after the limit.
 *
 * @param kernel what `kernelOf` has returned
 */
export async function runMachine(
  { without, parameters = '' }: Machine,
  kernel: string,
  plan: Plan,
  limitSeconds: number,
): Promise<Run> {
  await using directory = await temporaryDirectory();
  const at = (name: string) => join(directory.path, name);
  const modules = without === undefined ? kernel : withoutModules(kernel, without, at('modules'));
  script('initramfs.sh', kernel, at('initramfs'));
  mkdirSync(at('share'));
  // Of Node.js in the machines, for all runs.
  const cache = join(ROOT, 'bin/kernels/cache');
  mkdirSync(cache, { recursive: true });
  writeFileSync(at('share/plan.json'), JSON.stringify(plan));
  const environment = `CHECKOUT=${ROOT} MODULES=${modules}`;
  const share = (id: string, path: string, more: string) => [
    '-fsdev',
    `local,id=${id},path=${path},security_model=none,multidevs=remap${more}`,
    '-device',
    `virtio-9p-pci,fsdev=${id},mount_tag=${id}`,
  ];
  const args = [
    ...['-machine', 'q35', '-cpu', 'max', ...PROCESSOR],
    ...[
      '-m',
      `${MEMORY_MIB}`,
      '-nodefaults',
      '-no-user-config',
      '-no-reboot',
      '-display',
      'none',
      '-serial',
      'stdio',
    ],
    ...['-kernel', globSync(join(kernel, 'boot/vmlinuz-*'))[0] ?? '', '-initrd', at('initramfs')],
    ...['-append', `console=ttyS0 panic=-1 quiet ${parameters} ${environment}`],
    ...share('root', '/', ',readonly=on'),
    ...share('share', at('share'), ''),
    ...share('cache', cache, ''),
  ];
  const start = performance.now();
  const console = openSync(at('console'), 'w');
  // It dies with this process, however that ends.
  const qemu = spawn('setpriv', ['--pdeathsig', 'KILL', 'qemu-system-x86_64', ...args], {
    stdio: ['ignore', console, console],
  });
  const timer = setTimeout(() => qemu.kill('SIGKILL'), limitSeconds * 1000);
  await once(qemu, 'close');
  clearTimeout(timer);
  closeSync(console);
  const lines = existsSync(at('share/lines.jsonl')) ? readFileSync(at('share/lines.jsonl'), 'utf8') : '';
  return {
    lines: lines.split('\n').flatMap((line): Line[] => (line === '' ? [] : [JSON.parse(line)])),
    console: readFileSync(at('console'), 'utf8'),
    seconds: Math.round((performance.now() - start) / 1000),
  };
}

/** A copy of a kernel's modules, without those. */
function withoutModules(kernel: string, without: RegExp, directory: string): string {
  cpSync(join(kernel, 'lib'), join(directory, 'lib'), { recursive: true });
  for (const path of globSync(join(directory, 'lib/modules/*/kernel/**/*.ko*')))
    if (without.test(basename(path))) rmSync(path);
  const [release = ''] = globSync('*', { cwd: join(directory, 'lib/modules') });
  execFileSync('depmod', ['--basedir', directory, release]);
  return directory;
}

/** The archive does not answer, or no longer has what is asked for. */
export class DownloadError extends Error {}

/** @throws {Error} with what it has printed last */
function script(name: string, ...args: readonly string[]): void {
  try {
    execFileSync('sh', [join(import.meta.dirname, name), ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  } catch (error) {
    const { stderr = '', status } = error as { readonly stderr?: Buffer; readonly status?: number };
    const last = `${stderr}`.trim().split('\n').at(-1);
    throw status === CANNOT_DOWNLOAD ? new DownloadError(last) : new Error(`${name}: ${last}`);
  }
}

function isAccessible(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}
