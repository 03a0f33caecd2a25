/**
 * Bundles the programs. Run as a program it writes bin/ip-masq-agent for this machine, with its native module, and bin/ip-masq-ranges;
 * and as .meta.json hashes of their sources. Without the module, the agent goes on without it.
 * Usage: node build/bundle.ts VERSION
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Metafile, type Plugin, transformSync } from 'esbuild';
import { LOADER, type Pack, withCompiledCode } from './code-cache.ts';
import { interpreterLine } from './launch.ts';
import { nativeModule } from './native-module.ts';
import { sourcesOf } from './sources.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
/** Modules that libraries load but the agent never calls: 0.2 MB of source, and TLS, clusters, streams and threads of Node.js. */
const UNUSED: Readonly<Record<string, readonly string[]>> = {
  'prom-client': [
    './lib/pushgateway',
    './lib/cluster',
    './lib/summary',
    './lib/defaultMetrics',
    '@opentelemetry/api',
  ],
  pino: ['./transport', './lib/transport', 'worker_threads'],
  // The agent globs synchronously.
  'fast-glob': ['./providers/async', './providers/stream', './stream'],
  '@nodelib': ['./providers/async', './providers/stream', './async', './stream'],
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
  /** The name of a directory in cmd. If absent, the agent's. */
  readonly program?: 'ip-masq-ranges';
  readonly version: string;
  readonly file: string;
  /** The interpreter in the first line of the program, with its arguments. */
  readonly interpreter: string;
  /** Makes the content of `.bundle`. If absent, the agent is one file for any Node.js, and starts slower. */
  readonly pack?: Pack;
  /** The oldest Node.js whose syntax it may use. */
  readonly oldest?: string;
  /** The commit that the command `version` tells. If absent, that of the sources. */
  readonly commit?: string;
}

/** Writes a program as an executable file, and as `.bundle` beside it what that loads. Returns esbuild's list of its parts. */
export async function bundle(options: Bundle): Promise<Metafile> {
  const { file, interpreter, pack } = options;
  const { body, content, metafile } = await (pack === undefined ? wholly(options) : inParts(options, pack));
  // Overrides the project's package.json, which makes files without an extension ES modules.
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${dirname(file)}/package.json`, '{"type":"commonjs"}\n');
  if (content !== undefined) replace(`${file}.bundle`, content, 0o644);
  replace(file, `#!${interpreter}\n${body}`, 0o755);
  return metafile;
}

interface Output {
  readonly body: string;
  readonly content?: Buffer | string;
  readonly metafile: Metafile;
}

async function wholly(options: Bundle): Promise<Output> {
  const { outputFiles, metafile } = await compile(options, { format: 'cjs' }, 'main');
  return { body: outputFiles[0]?.text ?? '', metafile };
}

/** So that each command loads only what it needs. */
async function inParts(options: Bundle, pack: Pack): Promise<Output> {
  // The signals come before all that takes time to load.
  const entries = ['signals', 'main'];
  const splitting = { format: 'esm', splitting: true, chunkNames: '[name]-[hash]' } as const;
  const { outputFiles, metafile } = await compile(options, splitting, ...entries);
  const partOf = partsOf(metafile);
  const parts = new Map<string, Map<string, string>>();
  for (const { path, text } of outputFiles) {
    const name = partOf(relative(root, path));
    const part = parts.get(name) ?? new Map<string, string>();
    parts.set(name, part.set(`./${basename(path)}`, compact(commonModule(text))));
  }
  const names = entries.map((name) => `./${name}.js`);
  return { body: LOADER, content: pack(names, parts), metafile };
}

/**
 * The ES module that esbuild has written, which alone it splits, as one for `require`. In an ES module, `import` of a built-in
 * module evaluates all its exports: those of node:http load undici, 35 ms and 3 MB. What esbuild would make of it reads each
 * name through two getters. No module changes what it exports later.
 */
function commonModule(text: string): string {
  const rename = (names: string) => names.replace(/(\S+) as (\S+?)(,|\s)/g, '$2: $1$3');
  return text
    .replace(/^import "(.*)";$/gm, 'require("$1");')
    .replace(/^import (?:\* as )?(\w+) from "(.*)";$/gm, 'const $1 = require("$2");')
    .replace(/^import \{([^}]*)\} from (".*");$/gm, (_, names: string, from) => {
      return `const {${names.replaceAll(' as ', ': ')}} = require(${from});`;
    })
    .replace(/^export default (.*);$/gm, 'exports.default = $1;')
    .replace(/^export \{([^}]*)\};$/gm, (_, names: string) => `Object.assign(exports, {${rename(names)}});`)
    .replace(/\bimport\(("\.\/.*?")\)/g, 'Promise.resolve().then(() => require($1))');
}

/** Without indentation, a seventh of the bundle; names and lines stay, so that the place of an error can be found. */
function compact(text: string): string {
  return transformSync(text, { minifyWhitespace: true, lineLimit: 120, legalComments: 'inline' }).code;
}

/**
 * Tells the part of each module: of those that all commands need, `run` and `check`, `run`, one command or watcher, or others.
 * With a part for each set of commands, as esbuild sorts them, to load one takes longer.
 */
function partsOf({ outputs }: Metafile): (file: string) => string {
  const neededBy = (file: string, all = new Set<string>()): ReadonlySet<string> => {
    const imports = all.has(file) ? [] : (outputs[file]?.imports ?? []);
    all.add(file);
    for (const { path, kind } of imports) if (kind === 'import-statement') neededBy(path, all);
    return all;
  };
  const entries = Object.entries(outputs).flatMap(([file, { entryPoint }]) =>
    entryPoint === undefined ? [] : [{ name: basename(entryPoint, '.ts'), needs: neededBy(file) }],
  );
  return (file) => {
    const users = entries.filter(({ needs }) => needs.has(file)).map(({ name }) => name);
    if (users.includes('signals') || users.includes('main')) return 'main';
    if (users.includes('run')) return users.includes('check') ? 'config' : 'run';
    return (users.length === 1 && users[0]) || 'others';
  };
}

function compile(options: Bundle, how: BuildOptions, ...entries: readonly string[]) {
  const { program = 'ip-masq-agent', version, oldest = 'node24', commit = commitOfSources() } = options;
  return build({
    ...how,
    absWorkingDir: root,
    entryPoints: entries.map((name) => `cmd/${program}/${name}.ts`),
    outdir: 'bin',
    write: false,
    bundle: true,
    metafile: true,
    platform: 'node',
    target: oldest,
    plugins: [leftOut, lateModules],
    legalComments: 'eof',
    define: {
      BUNDLED: 'true',
      'import.meta.dirname': '__dirname',
      'process.env.IP_MASQ_AGENT_VERSION': JSON.stringify(version),
      'process.env.IP_MASQ_AGENT_COMMIT': JSON.stringify(commit),
    },
  });
}

/** Renames, so that an interrupted build leaves no partial file, and a running agent keeps its own. */
function replace(file: string, content: string | Buffer, mode: number): void {
  writeFileSync(`${file}.tmp`, content);
  chmodSync(`${file}.tmp`, mode);
  renameSync(`${file}.tmp`, file);
}

function commitOfSources(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  } catch {
    return 'unknown';
  }
}

/** So that tests of the program see whether it is of the sources as they are. */
function writeSources(file: string, { inputs }: Metafile): void {
  const sources = sourcesOf(root, Object.keys(inputs));
  writeFileSync(`${file}.meta.json`, JSON.stringify({ sources }));
}

if (import.meta.main) {
  const [version = 'unknown'] = process.argv.slice(2);
  const file = join(root, 'bin/ip-masq-agent');
  // The Node.js that builds is the one that the lockfile pins.
  const interpreter = interpreterLine(process.execPath);
  const metafile = await bundle({ version, file, interpreter, pack: withCompiledCode });
  writeSources(file, metafile);
  const other = join(root, 'bin/ip-masq-ranges');
  writeSources(other, await bundle({ program: 'ip-masq-ranges', version, file: other, interpreter }));
  const native = join(root, nativeModule(process.arch));
  if (existsSync(native)) copyFileSync(native, join(dirname(file), 'koffi.node'));
}
