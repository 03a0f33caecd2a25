/**
 * Bundles the agent into one executable file, and writes beside it as .meta.json what esbuild put in.
 * Usage: node build/bundle.ts VERSION [FILE [NODE]]; without FILE it is bin/ip-masq-agent, and runs with the Node that builds.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { interpreterLine } from './launch.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
// The Node that builds is the one that the lockfile pins.
const [
  version = 'unknown',
  target = `${root}/bin/ip-masq-agent`,
  interpreter = interpreterLine(process.execPath),
] = process.argv.slice(2);

/** What libraries load at their start and the agent never calls: 0.2 MB of source, and TLS, clusters and threads of Node. */
const UNUSED: Readonly<Record<string, readonly string[]>> = {
  'prom-client': ['./lib/pushgateway', './lib/cluster', './lib/summary', '@opentelemetry/api'],
  pino: ['./transport', './lib/transport'],
};

const leftOut: Plugin = {
  name: 'left-out',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /./ }, ({ path, importer }) => {
      const [, library = ''] = /\/node_modules\/([^/]+)\//.exec(importer) ?? [];
      return UNUSED[library]?.includes(path) ? { path, namespace: 'left-out' } : undefined;
    });
    onLoad({ filter: /./, namespace: 'left-out' }, () => ({ contents: 'module.exports = {}' }));
  },
};

const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ['cmd/ip-masq-agent/main.ts'],
  outfile: `${target}.tmp`,
  bundle: true,
  metafile: true,
  platform: 'node',
  target: 'node24',
  // What jsonc-parser names as main cannot be bundled (microsoft/node-jsonc-parser#57).
  mainFields: ['module', 'main'],
  // An ES module's `import` of what Node has built in evaluates all its exports, and with those of node:http the whole of
  // undici: 35 ms and 3 MB. `require` evaluates what is used, and keeps the source once instead of twice.
  format: 'cjs',
  plugins: [leftOut],
  legalComments: 'eof',
  define: {
    'process.env.IP_MASQ_AGENT_VERSION': JSON.stringify(version),
    'process.env.IP_MASQ_AGENT_COMMIT': JSON.stringify(commit()),
  },
  banner: { js: `#!${interpreter}` },
});
// The project's own package.json says that files without an extension are ES modules.
writeFileSync(`${dirname(target)}/package.json`, '{"type":"commonjs"}\n');
writeFileSync(`${target}.meta.json`, JSON.stringify(metafile));
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
