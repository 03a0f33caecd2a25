import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');

/**
 * Which folder may import which; of those with "types" only what is gone at run time. A subfolder has a line of its own.
 * A folder and its subfolders may import each other.
 */
const ALLOWED: Readonly<Record<string, Readonly<Record<string, 'all' | 'types'>>>> = {
  text: {},
  cidr: {},
  config: { cidr: 'all' },
  inputs: { config: 'all', cidr: 'all' },
  report: { config: 'all', cidr: 'all' },
  'win-bridge': { config: 'all', cidr: 'all', report: 'all' },
  policy: { cidr: 'all', config: 'types' },
  dataplane: { policy: 'all', cidr: 'all', netlink: 'all' },
  'dataplane/iptables': { policy: 'all', cidr: 'all', netlink: 'types' },
  'dataplane/nftables': { policy: 'all', cidr: 'all', netlink: 'types' },
  flows: { policy: 'all', cidr: 'all', netlink: 'all' },
  foreign: {
    policy: 'all',
    cidr: 'all',
    dataplane: 'all',
    'dataplane/iptables': 'all',
    'dataplane/nftables': 'all',
    netlink: 'types',
  },
  log: {},
  netlink: {},
  node: { cidr: 'all', netlink: 'all' },
  agent: {
    cidr: 'all',
    config: 'all',
    policy: 'all',
    dataplane: 'all',
    netlink: 'all',
    node: 'all',
    log: 'all',
  },
  beside: {
    policy: 'all',
    dataplane: 'all',
    netlink: 'all',
    node: 'all',
    flows: 'all',
    foreign: 'all',
    agent: 'all',
    log: 'all',
    status: 'types',
  },
  doctor: {
    config: 'all',
    policy: 'all',
    dataplane: 'all',
    'dataplane/iptables': 'all',
    node: 'all',
    foreign: 'all',
    agent: 'all',
  },
  // The page and the endpoints show problems and origins of the config in its own words.
  status: { config: 'all', policy: 'all', dataplane: 'all', foreign: 'types', agent: 'types' },
};

/** The only files in lib that may import what reaches out of the process. */
const ENDS: Readonly<Record<string, readonly string[]>> = {
  'node:fs': [
    'lib/agent/wakes.ts',
    'lib/config/read.ts',
    'lib/dataplane/host.ts',
    'lib/inputs/directory.ts',
    'lib/inputs/input.ts',
    'lib/log/log.ts',
    'lib/log/termination.ts',
    'lib/node/cpu-time.ts',
    'lib/netlink/threads.ts',
    'lib/node/own-addresses.ts',
    'lib/status/limits.ts',
  ],
  'node:child_process': ['lib/dataplane/host.ts'],
  'fast-glob': ['lib/config/read.ts'],
  'ip-cidr': ['lib/cidr/extent.ts'],
  'js-yaml': ['lib/config/yaml.ts'],
  'jsonc-parser': ['lib/win-bridge/exception-list.ts', 'lib/win-bridge/json.ts'],
  pino: ['lib/log/log.ts'],
  'prom-client': ['lib/status/metrics.ts'],
  'node:http': ['lib/status/server.ts'],
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
    const folders = new Set(imports.flatMap(({ file }) => folderOf(file) ?? []));
    for (const folder of Object.keys(ALLOWED)) {
      if (ALLOWED[folder] !== undefined && folder !== 'text') assert.ok(folders.has(folder), folder);
    }
  });

  it('go from folder to folder as the design allows, and no other way', () => {
    const wrong = imports.filter(({ file, from, typeOnly }) => {
      const [own, other] = [folderOf(file), folderOf(from)];
      if (own === undefined || other === undefined || other === 'text' || areRelated(own, other))
        return false;
      if (own === 'cmd') return false;
      const allowed = ALLOWED[own]?.[other];
      return allowed !== 'all' && !(allowed === 'types' && typeOnly);
    });
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('lead to nothing that is there for tests or builds only', () => {
    const wrong = imports.filter(({ from }) => /^(?:test|build|examples)\//.test(from));
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('go in no circle between files, types included', () => {
    assert.equal(circle(imports.map(({ file, from }) => ({ own: file, other: from }))), undefined);
  });

  it('go in no circle between folders', () => {
    const edges = imports.flatMap(({ file, from }) => {
      const [own, other] = [folderOf(file), folderOf(from)];
      return own === undefined || other === undefined || areRelated(own, other) ? [] : [{ own, other }];
    });
    assert.equal(circle(edges), undefined);
  });

  it('lead from no command to another', () => {
    const wrong = imports.filter(({ file, from }) => {
      const [own, other] = [commandOf(file), commandOf(from)];
      return own !== undefined && other !== undefined && own !== other;
    });
    assert.deepEqual(wrong.map(describeImport), []);
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
      // Completion names shells, and does not run them.
      const wrong = own
        .filter((file) => !/\/completion\.ts$/.test(file))
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

/** `cmd`, or the folder in lib with its subfolder; undefined for what is not the project's. */
function folderOf(path: string): string | undefined {
  const [top, ...folders] = path.split('/').slice(0, -1);
  if (top === 'cmd') return 'cmd';
  return top === 'lib' ? folders.join('/') : undefined;
}

/** Whether the two are one folder, or one is the other's subfolder. */
function areRelated(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}

/** The command whose folder holds the file. */
function commandOf(path: string): string | undefined {
  return /^cmd\/ip-masq-agent\/([^/]+)\//.exec(path)?.[1];
}

function describeImport({ file, from, typeOnly }: Import): string {
  return `${file} imports ${typeOnly ? 'types of ' : ''}${from}`;
}

interface Edge {
  readonly own: string;
  readonly other: string;
}

/** Places that import each other in a circle; undefined if there is none. */
function circle(edges: readonly Edge[]): string | undefined {
  const others = Map.groupBy(edges, ({ own }) => own);
  const done = new Set<string>();
  const walk = (path: readonly string[]): string | undefined => {
    const own = path.at(-1) ?? '';
    if (done.has(own)) return undefined;
    for (const { other } of others.get(own) ?? []) {
      const at = path.indexOf(other);
      const found = at === -1 ? walk([...path, other]) : [...path.slice(at), other].join(' → ');
      if (found !== undefined) return found;
    }
    done.add(own);
    return undefined;
  };
  return [...others.keys()].map((own) => walk([own])).find((found) => found !== undefined);
}
