/** Bundles the agent into one executable file, bin/ip-masq-agent. Usage: node build/bundle.ts VERSION */
import { execFileSync } from 'node:child_process';
import { chmodSync, renameSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = `${root}/bin/ip-masq-agent`;

await build({
  absWorkingDir: root,
  entryPoints: ['cmd/ip-masq-agent/main.ts'],
  outfile: `${target}.tmp`,
  bundle: true,
  platform: 'node',
  target: 'node20',
  // What jsonc-parser names as main cannot be bundled (microsoft/node-jsonc-parser#57).
  mainFields: ['module', 'main'],
  format: 'esm',
  legalComments: 'eof',
  define: {
    'process.env.IP_MASQ_AGENT_VERSION': JSON.stringify(process.argv[2] ?? 'unknown'),
    'process.env.IP_MASQ_AGENT_COMMIT': JSON.stringify(commit()),
  },
  banner: {
    // The Node that builds is the one the lockfile pins. SIGUSR1 would open its debugger. CommonJS dependencies look for `require`.
    js: `#!${process.execPath} --disable-sigusr1\nimport { createRequire as __createRequire } from 'node:module';\nconst require = __createRequire(import.meta.url);`,
  },
});
chmodSync(`${target}.tmp`, 0o755);
// A build that is interrupted, or a running agent, never meets half a file.
renameSync(`${target}.tmp`, target);

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}
