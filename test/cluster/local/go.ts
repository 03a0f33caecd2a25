import { type Environment, run } from '../../lab/run.ts';
import { toolEnvironment } from './environment.ts';

const OLDEST_GO = 26;

/** The version of Go, or an error that says what to install. */
export async function goVersion(): Promise<string> {
  const needed = `a local cluster needs Go 1.${OLDEST_GO} or newer on the path`;
  // In its directory, where an older Go gets the one that go.mod asks for.
  const args = ['env', '-C', import.meta.dirname, 'GOVERSION'];
  const result = await run({ file: 'go', args }, goEnvironment()).catch(() => undefined);
  const version = result?.stdout.trim();
  if (!version)
    throw new Error(`${needed}, and there is none; install it, or set KUBECONFIG to use another cluster`);
  const minor = Number(/^go1\.(\d+)/.exec(version)?.[1] ?? OLDEST_GO);
  if (minor < OLDEST_GO) throw new Error(`${needed}, and this is ${version}`);
  return version;
}

/** Go needs the user's own settings: proxies, caches. Without C the programs are static. */
export function goEnvironment(): Environment {
  // A compiler that collects its garbage less often is a tenth faster.
  return { ...toolEnvironment(process.env), CGO_ENABLED: '0', GOGC: '400' };
}
