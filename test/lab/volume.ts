import { randomInt } from 'node:crypto';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rename,
  rm,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Contents by file name. */
export type Files = Readonly<Record<string, string | Buffer>>;

/** A directory that every user can read. */
export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

/** Makes a directory that goes away, with all that is in it, when it is disposed of. */
export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const path = await mkdtemp(join(tmpdir(), 'ip-masq-test-'));
  await chmod(path, 0o755);
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

const DATA = '..data';
const NEW_DATA = '..data_tmp';

/**
 * A projected volume, laid out and changed by the very steps, in their order, of kubelet's AtomicWriter
 * (pkg/volume/util/atomic_writer.go in Kubernetes), so that a reader meets every state in between.
 * Unlike kubelet it makes a new volume version also of files that did not change.
 */
export class ProjectedVolume {
  readonly dir: string;

  /** @param dir a directory in which there is nothing yet but earlier volume versions of such a volume */
  constructor(dir: string) {
    this.dir = dir;
  }

  /** Lays the files out in a directory, which is made where it is missing. */
  static async create(dir: string, files: Files): Promise<ProjectedVolume> {
    await mkdir(dir, { recursive: true, mode: 0o755 });
    const volume = new ProjectedVolume(dir);
    await volume.swap(files);
    return volume;
  }

  /**
   * Replaces all files by a new volume version.
   *
   * @returns when `..data` was renamed, as `performance.now()` tells; by then everything else is done too.
   */
  async swap(files: Files): Promise<number> {
    const before = await this.#version();
    const stale = before === undefined ? [] : await readdir(this.#path(before));
    const version = await this.#write(files);
    await symlink(version, this.#path(NEW_DATA));
    await rename(this.#path(NEW_DATA), this.#path(DATA));
    const renamed = performance.now();

    for (const name of Object.keys(files)) await this.#show(name);
    for (const name of stale) if (!Object.hasOwn(files, name)) await unlink(this.#path(name));
    if (before !== undefined) await rm(this.#path(before), { recursive: true });
    return renamed;
  }

  /** Breaks the volume as a kubelet does that is interrupted: `..data` is gone, the visible links lead nowhere. */
  async loseData(): Promise<void> {
    await unlink(this.#path(DATA));
  }

  /** Writes the files to a new directory, named like `..2026_01_31_23_59_59.123456789`. */
  async #write(files: Files): Promise<string> {
    const [time = ''] = new Date().toISOString().replaceAll(/[-T:]/g, '_').split('.');
    const version = `..${time}.${randomInt(2 ** 32)}`;
    await mkdir(this.#path(version));
    await chmod(this.#path(version), 0o755);
    for (const [name, content] of Object.entries(files)) {
      await writeFile(this.#path(join(version, name)), content);
      await chmod(this.#path(join(version, name)), 0o644);
    }
    return version;
  }

  /** Makes the link that users see; kubelet leaves it alone where it is there. */
  async #show(name: string): Promise<void> {
    const link = await readlink(this.#path(name)).catch(() => undefined);
    if (link === undefined) await symlink(join(DATA, name), this.#path(name));
  }

  async #version(): Promise<string | undefined> {
    return await readlink(this.#path(DATA)).catch(() => undefined);
  }

  #path(name: string): string {
    return join(this.dir, name);
  }
}
