import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');

/** Which folder may import which; of those with "types" only what is gone at run time. */
const ALLOWED: Readonly<Record<string, Readonly<Record<string, 'all' | 'types'>>>> = {
  cmd: { agent: 'all', config: 'all', policy: 'all', dataplane: 'all', telemetry: 'all', cidr: 'all' },
  agent: { config: 'all', policy: 'all', dataplane: 'all', telemetry: 'all', cni: 'all' },
  cni: { config: 'all', cidr: 'all' },
  config: { cidr: 'all' },
  policy: { cidr: 'all', config: 'types' },
  dataplane: { policy: 'all', cidr: 'all' },
  telemetry: {},
  cidr: {},
};

/** The only files in lib that may import what reaches out of the process. */
const ENDS: Readonly<Record<string, readonly string[]>> = {
  'node:fs': [
    'lib/agent/output-file.ts',
    'lib/agent/render.ts',
    'lib/agent/watch.ts',
    'lib/config/input.ts',
    'lib/config/read.ts',
    'lib/dataplane/host.ts',
    'lib/telemetry/log.ts',
    'lib/telemetry/termination.ts',
  ],
  'node:child_process': ['lib/dataplane/host.ts'],
  'fast-glob': ['lib/config/read.ts'],
  'js-yaml': ['lib/config/yaml.ts'],
  'jsonc-parser': ['lib/cni/exception-list.ts', 'lib/cni/json.ts'],
  pino: ['lib/telemetry/log.ts'],
  'prom-client': ['lib/telemetry/metrics.ts'],
  'node:http': ['lib/telemetry/server.ts'],
};

interface Import {
  readonly file: string;
  readonly from: string;
  readonly typeOnly: boolean;
}

const files = globSync('{cmd,lib}/**/*.{ts,js}', { cwd: ROOT }).toSorted();
const imports = files.flatMap((file) => importsOf(file, readFileSync(join(ROOT, file), 'utf8')));

describe('imports', () => {
  it('are found in every way of writing them', () => {
    const text = [
      "import { a } from './a.ts';",
      "import type { B } from './b.ts';",
      "import { type C } from './c.ts';",
      "import * as d from './d.ts';",
      "import './e.ts';",
      "export * from './f.ts';",
      "export type { G } from './g.ts';",
      "const h = await import('./h.ts');",
      'import {\n  type I,\n  i,\n} from "./i.ts";',
      "type J = import('./j.ts').J;",
      "const k = require('./k.ts');",
      "const l = process.getBuiltinModule('node:l');",
    ].join('\n');
    assert.deepEqual(
      importsOf('lib/x/x.ts', text).map(({ from, typeOnly }) => `${from}${typeOnly ? ' type' : ''}`),
      [
        'lib/x/a.ts',
        'lib/x/b.ts type',
        'lib/x/c.ts',
        'lib/x/d.ts',
        'lib/x/e.ts',
        'lib/x/f.ts',
        'lib/x/g.ts type',
        'lib/x/h.ts',
        'lib/x/i.ts',
        'lib/x/j.ts',
        'lib/x/k.ts',
        'node:l',
      ],
    );
  });

  it('were read from every folder', () => {
    assert.ok(files.length > 20);
    for (const folder of ['config', 'policy', 'dataplane', 'agent', 'cmd']) {
      assert.ok(
        imports.some(({ file }) => folderOf(file) === folder),
        folder,
      );
    }
  });

  it('go from folder to folder as the design allows, and no other way', () => {
    const wrong = imports.filter(({ file, from, typeOnly }) => {
      const [own, other] = [folderOf(file), folderOf(from)];
      if (own === undefined || other === undefined || own === other) return false;
      const allowed = ALLOWED[own]?.[other];
      return allowed !== 'all' && !(allowed === 'types' && typeOnly);
    });
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('lead to nothing that is there for tests or builds only', () => {
    const wrong = imports.filter(({ from }) => /^(?:test|build|examples)\//.test(from));
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('go in no circle between folders', () => {
    const edges = imports.flatMap(({ file, from }) => {
      const [own, other] = [folderOf(file), folderOf(from)];
      return own === undefined || other === undefined || own === other ? [] : [{ own, other }];
    });
    assert.equal(circle(edges), undefined);
  });

  it('reach out of the process in a few files only', () => {
    const wrong = imports.filter(({ file, from }) => {
      const allowed = ENDS[from.replace(/\/promises$/, '')];
      return file.startsWith('lib/') && allowed !== undefined && !allowed.includes(file);
    });
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('start no process from cmd', () => {
    const wrong = imports.filter(
      ({ file, from }) => file.startsWith('cmd/') && /child_process|cluster/.test(from),
    );
    assert.deepEqual(wrong.map(describeImport), []);
  });
});

describe('the code', () => {
  const own = files.filter((file) => !file.includes('.generated.'));

  for (const [name, pattern] of [
    ['runs no shell', /\bshell\s*:|\{[^}]*\bexec(?:Sync)?\b[^}]*\}\s*from|['"](?:\/bin\/)?(?:ba|da)?sh['"]/],
    ['never lists a whole table or ruleset', /ip6?tables(?:-nft|-legacy)?-save|['"]-save['"]|\bruleset\b/],
    ['evaluates no text as code', /\beval\s*\(|new Function\s*\(|node:vm\b/],
    ['has no default export', /^export default\b/m],
  ] as const) {
    it(name, () => {
      // Completion is about shells, which it names and does not run.
      const wrong = own
        .filter((file) => !/\/completion(?:-script)?\.ts$/.test(file))
        .flatMap((file) => {
          const found = pattern.exec(withoutComments(readFileSync(join(ROOT, file), 'utf8')));
          return found === null ? [] : [`${file}: ${found[0]}`];
        });
      assert.deepEqual(wrong, []);
    });
  }
});

function importsOf(file: string, text: string): readonly Import[] {
  const statement =
    /^\s*(?:import|export)\s+(?:(type)\s+)?(?:[\w*{][^'";]*?\s+from\s+)?(['"])([^'"]+)\2|\b(?:import|require|getBuiltinModule)\(\s*(['"])([^'"]+)\4/gm;
  return [...withoutComments(text).matchAll(statement)].map(([, type, , named, , called]) => {
    const from = named ?? called ?? '';
    return {
      file,
      from: from.startsWith('.') ? relative(ROOT, join(ROOT, dirname(file), from)) : from,
      typeOnly: type !== undefined,
    };
  });
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** `cmd`, or the folder in lib; undefined for what is not ours. */
function folderOf(path: string): string | undefined {
  const [top, folder] = path.split('/');
  if (top === 'cmd') return 'cmd';
  return top === 'lib' ? folder : undefined;
}

function describeImport({ file, from, typeOnly }: Import): string {
  return `${file} imports ${typeOnly ? 'types of ' : ''}${from}`;
}

interface Edge {
  readonly own: string;
  readonly other: string;
}

/** Folders that import each other in a circle; undefined where there is none. */
function circle(edges: readonly Edge[]): string | undefined {
  const walk = (path: readonly string[]): string | undefined => {
    const own = path.at(-1);
    const others = new Set(edges.filter((edge) => edge.own === own).map(({ other }) => other));
    for (const other of others) {
      const found = path.includes(other) ? [...path, other].join(' → ') : walk([...path, other]);
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return edges.map(({ own }) => walk([own])).find((found) => found !== undefined);
}
