/**
 * Removes from an image what depends on the time and the builder: Docker's builders write the build time and the
 * architecture of their machine to it. The layers do not change.
 * Usage: node build/image/normalise.ts DOCKER IMAGE ARCH SECONDS
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [docker = '', image = '', architecture = '', seconds = ''] = process.argv.slice(2);
const created = new Date(Number(seconds) * 1000).toISOString();
const dir = mkdtempSync(join(tmpdir(), 'ip-masq-image-'));
const archive = join(dir, 'image.tar');
try {
  run(docker, 'save', '--output', archive, image);
  run('tar', '-x', '-f', archive, '-C', dir);
  const [{ Config, Layers }] = json('manifest.json');
  // What the OCI image specification requires, and how the image runs.
  const { os, config, rootfs } = json(Config);
  const { Entrypoint, Env, Labels, User } = config;
  write('config.json', {
    architecture,
    os,
    created,
    config: { Entrypoint, Env, Labels, User },
    rootfs,
    history: Layers.map(() => ({ created, created_by: 'make container' })),
  });
  write('manifest.json', [{ Config: 'config.json', RepoTags: [image], Layers }]);
  run('tar', '-c', '-f', archive, '-C', dir, 'manifest.json', 'config.json', ...Layers);
  run(docker, 'load', '--quiet', '--input', archive);
} finally {
  rmSync(dir, { recursive: true, force: true });
}

function run(file: string, ...args: readonly string[]): void {
  execFileSync(file, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

function json(name: string) {
  return JSON.parse(readFileSync(join(dir, name), 'utf8'));
}

function write(name: string, value: unknown): void {
  writeFileSync(join(dir, name), JSON.stringify(value));
}
