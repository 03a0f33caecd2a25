/**
 * Bundles the agent. Run as a program it writes bin/ip-masq-agent for this machine, with its native module, and as .meta.json
 * hashes of its sources. Without the module, the agent goes on without it.
 * Usage: node build/bundle.ts VERSION
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Metafile, type Plugin } from 'esbuild';
import { LOADER, withCompiledCode } from './code-cache.ts';
import { interpreterLine } from './launch.ts';
import { nativeModule } from './native-module.ts';
import { sourcesOf } from './sources.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
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

/** A bundle to write. */
interface Bundle {
  readonly version: string;
  readonly file: string;
  /** The interpreter in the first line of the program, with its arguments. */
  readonly interpreter: string;
  /** The command of the Node.js that will run it. If absent, it is one file for any Node.js, and starts slower. */
  readonly node?: readonly string[];
  /** The oldest Node.js whose syntax it may use. */
  readonly oldest?: string;
}

/** Writes the agent as an executable file, and as `.bundle` beside it what that loads. Returns esbuild's list of its parts. */
export async function bundle(options: Bundle): Promise<Metafile> {
  const { version, file, interpreter, node, oldest = 'node24' } = options;
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: ['cmd/ip-masq-agent/main.ts'],
    outfile: file,
    write: false,
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
  });
  const body = outputFiles[0]?.text ?? '';
  // Overrides the project's package.json, which makes files without an extension ES modules.
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${dirname(file)}/package.json`, '{"type":"commonjs"}\n');
  if (node !== undefined) replace(`${file}.bundle`, withCompiledCode(body, node), 0o644);
  replace(file, `#!${interpreter}\n${node === undefined ? body : LOADER}`, 0o755);
  return metafile;
}

/** Renames, so that an interrupted build leaves no partial file, and a running agent keeps its own. */
function replace(file: string, content: string | Buffer, mode: number): void {
  writeFileSync(`${file}.tmp`, content);
  chmodSync(`${file}.tmp`, mode);
  renameSync(`${file}.tmp`, file);
}

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}

if (import.meta.main) {
  const [version = 'unknown'] = process.argv.slice(2);
  const file = join(root, 'bin/ip-masq-agent');
  // The Node.js that builds is the one that the lockfile pins.
  const interpreter = interpreterLine(process.execPath);
  const metafile = await bundle({ version, file, interpreter, node: [process.execPath] });
  const sources = sourcesOf(root, Object.keys(metafile.inputs));
  writeFileSync(`${file}.meta.json`, JSON.stringify({ sources }));
  const native = join(root, nativeModule(process.arch));
  if (existsSync(native)) copyFileSync(native, join(dirname(file), 'koffi.node'));
}
