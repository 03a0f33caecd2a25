import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { hold } from './holder.ts';
import { addNamespace, deleteNamespace } from './named.ts';
import { owning } from './owning.ts';
import { killAllIn } from './processes.ts';
import { type Command, type Environment, type RunOptions, type RunResult, run, succeed } from './run.ts';
import { IS_ROOT, NOBODY, requireOpenPath } from './user.ts';

/** Who makes the box: root, by name, or a user without privileges, within a user namespace. */
export type BoxKind = 'netns' | 'userns';

/** A private network namespace: whatever happens in it, the machine's own rules and links stay as they are. */
export interface Box extends AsyncDisposable {
  readonly kind: BoxKind;
  /** For programs in the box: finds what is in sbin, speaks English, has an xtables lock of its own. */
  readonly env: Environment;
  /** The command that runs this program in the box. It needs `env`, and dies with this process. */
  wrap(file: string, args: readonly string[]): Command;
  /** Runs a program in the box to its end, however it ends. */
  run(file: string, args: readonly string[], options?: RunOptions): Promise<RunResult>;
  /** Starts a program in the box; an environment in the options is added to that of the box. */
  spawn(file: string, args: readonly string[], options?: SpawnOptions): ChildProcess;
  /** Kills what still runs in the box and removes it, temporary files included. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A box that one process keeps alive; `ip link … netns PID` moves links into it. */
export interface HeldBox extends Box {
  readonly pid: number;
}

const DROP_PRIVILEGES = ['--reuid', `${NOBODY}`, '--regid', `${NOBODY}`, '--clear-groups'];

/** Makes an empty box, its loopback link up. Root makes a `userns` box as nobody, without privileges. */
export async function createBox(kind: BoxKind = IS_ROOT ? 'netns' : 'userns'): Promise<Box> {
  return await owning(async (stack) => {
    const env = await createEnvironment(kind === 'userns' && IS_ROOT, stack);
    const box = await (kind === 'netns' ? createNamed(env, stack) : createHeld(kind, env, NEW_USERNS, stack));
    await bringLoopbackUp(box);
    return box;
  });
}

/** One more network namespace of the same owner as the box, and with its environment, for links to join the two. */
export async function createNeighbour(box: Box): Promise<HeldBox> {
  return await owning(async (stack) => {
    const neighbour = await createHeld(box.kind, box.env, box.wrap('unshare', ['--net', 'cat']), stack);
    await bringLoopbackUp(neighbour);
    return neighbour;
  });
}

type BareBox = Omit<Box, typeof Symbol.asyncDispose>;
type BareHeldBox = Omit<HeldBox, typeof Symbol.asyncDispose>;

async function createEnvironment(forNobody: boolean, stack: AsyncDisposableStack): Promise<Environment> {
  const dir = await mkdtemp(join(tmpdir(), 'ip-masq-box-'));
  stack.defer(() => rm(dir, { recursive: true, force: true }));
  if (forNobody) await chown(dir, NOBODY, NOBODY);
  const path = [
    dirname(process.execPath),
    process.env['PATH'],
    '/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin',
  ];
  const cache = process.env['NODE_COMPILE_CACHE'];
  return {
    PATH: path.filter((part) => part !== undefined).join(':'),
    LC_ALL: 'C',
    XTABLES_LOCKFILE: join(dir, 'xtables.lock'),
    ...(cache && { NODE_COMPILE_CACHE: cache }),
  };
}

async function createNamed(env: Environment, stack: AsyncDisposableStack): Promise<BareBox> {
  const name = await addNamespace(env);
  stack.defer(() => deleteNamespace(name, env));
  const box = bareBox('netns', env, (file, args) =>
    mortal('netns', ['ip', 'netns', 'exec', name, file, ...args]),
  );
  await killAtTheEnd(box, stack);
  return box;
}

const NEW_USERNS = mortal('userns', ['unshare', '--user', '--map-root-user', '--net', 'cat']);

async function createHeld(
  kind: BoxKind,
  env: Environment,
  holder: Command,
  stack: AsyncDisposableStack,
): Promise<BareHeldBox> {
  if (kind === 'userns' && IS_ROOT) requireOpenPath();
  const pid = await hold(holder, env);
  const user = kind === 'userns' ? ['--preserve-credentials', '--user'] : [];
  const enter = ['nsenter', ...user, '--net', '--target', `${pid}`];
  const box = bareBox(kind, env, (file, args) => mortal(kind, [...enter, file, ...args]));
  await killAtTheEnd(box, stack);
  return { ...box, pid };
}

/** The command under a parent-death signal (prctl(2)), and without root's privileges where the box is to have none. */
function mortal(kind: BoxKind, command: readonly string[]): Command {
  const drop = kind === 'userns' && IS_ROOT ? DROP_PRIVILEGES : [];
  return { file: 'setpriv', args: ['--pdeathsig', 'KILL', ...drop, ...command] };
}

function bareBox(kind: BoxKind, env: Environment, wrap: Box['wrap']): BareBox {
  return {
    kind,
    env,
    wrap,
    run: (file, args, options) => run(wrap(file, args), env, options),
    spawn: (file, args, options = {}) => {
      const command = wrap(file, args);
      return spawn(command.file, command.args, { ...options, env: { ...env, ...options.env } });
    },
  };
}

async function killAtTheEnd(box: BareBox, stack: AsyncDisposableStack): Promise<void> {
  const netns = await succeed(box.run('readlink', ['/proc/self/ns/net']));
  stack.defer(() => killAllIn(netns.trim()));
}

async function bringLoopbackUp(box: BareBox): Promise<void> {
  await succeed(box.run('ip', ['link', 'set', 'lo', 'up']));
}
