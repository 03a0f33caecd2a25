/**
 * Bundles the agent into one executable file. Next to it, as .meta.json, it writes esbuild's list of its parts and hashes of
 * its sources.
 * Usage: node build/bundle.ts VERSION [FILE [NODE [OLDEST]]]. FILE defaults to bin/ip-masq-agent, NODE to the Node.js that builds,
 * OLDEST, the oldest Node.js whose syntax it may use, to node24.
 * Without NODE, it copies this machine's native module next to FILE. Without the module, the agent goes on without it.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { interpreterLine } from './launch.ts';
import { nativeModule } from './native-module.ts';
import { sourcesOf } from './sources.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
// The Node.js that builds is the one that the lockfile pins.
const [version = 'unknown', target = `${root}/bin/ip-masq-agent`, interpreter, oldest = 'node24'] =
  process.argv.slice(2);

/** Modules that libraries load but the agent never calls: 0.2 MB of source, and TLS, clusters and threads of Node.js. */
const UNUSED: Readonly<Record<string, readonly string[]>> = {
  'prom-client': [
    './lib/pushgateway',
    './lib/cluster',
    './lib/summary',
    './lib/defaultMetrics',
    '@opentelemetry/api',
  ],
  pino: ['./transport', './lib/transport', 'worker_threads'],
};

/** Modules of Node.js that are not in its snapshot: the bundle loads each at its first use, and many never. */
const BUILT_IN: readonly string[] = [
  ...['assert', 'child_process', 'crypto', 'fs/promises', 'http', 'net', 'os', 'timers/promises', 'tty'],
  ...['v8', 'vm'],
];

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

const lateModules: Plugin = {
  name: 'late-modules',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /./ }, ({ path, namespace }) => {
      const name = path.replace(/^node:/, '');
      if (!BUILT_IN.includes(name)) return undefined;
      return namespace === 'late' ? { path, external: true } : { path: name, namespace: 'late' };
    });
    onLoad({ filter: /./, namespace: 'late' }, ({ path }) => ({
      contents: `const load = () => require('node:${path}');
module.exports = (...values) => load()(...values);
for (const name of ${JSON.stringify(Object.keys(process.getBuiltinModule(path) ?? {}))})
  Object.defineProperty(module.exports, name, { get: () => load()[name] });`,
    }));
  },
};

const { metafile } = await build({
  absWorkingDir: root,
  entryPoints: ['cmd/ip-masq-agent/main.ts'],
  outfile: `${target}.tmp`,
  bundle: true,
  metafile: true,
  platform: 'node',
  target: oldest,
  // The file that jsonc-parser names as main cannot be bundled (microsoft/node-jsonc-parser#57).
  mainFields: ['module', 'main'],
  // In an ES module, `import` of a built-in module evaluates all its exports. Those of node:http load undici: 35 ms and
  // 3 MB. `require` evaluates only what is used, and keeps the source once instead of twice.
  format: 'cjs',
  plugins: [leftOut, lateModules],
  inject: ['build/performance.ts'],
  legalComments: 'eof',
  define: {
    BUNDLED: 'true',
    'import.meta.dirname': '__dirname',
    'process.env.IP_MASQ_AGENT_VERSION': JSON.stringify(version),
    'process.env.IP_MASQ_AGENT_COMMIT': JSON.stringify(commit()),
  },
  banner: { js: `#!${interpreter ?? interpreterLine(process.execPath)}` },
});
// Overrides the project's package.json, which makes files without an extension ES modules.
writeFileSync(`${dirname(target)}/package.json`, '{"type":"commonjs"}\n');
const sources = sourcesOf(root, Object.keys(metafile.inputs));
writeFileSync(`${target}.meta.json`, JSON.stringify({ ...metafile, sources }));
chmodSync(`${target}.tmp`, 0o755);
const native = join(root, nativeModule(process.arch));
if (interpreter === undefined && existsSync(native))
  copyFileSync(native, join(dirname(target), 'koffi.node'));
// Renamed, so that an interrupted build leaves no partial file, and a running agent keeps its own.
renameSync(`${target}.tmp`, target);

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}
