import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  CHECK_FLAGS,
  CLEANUP_FLAGS,
  EXPLAIN_FLAGS,
  RENDER_FLAGS,
} from '../../cmd/ip-masq-agent/command-flags.ts';
import { FLAGS } from '../../cmd/ip-masq-agent/flags.ts';
import { OWN_FLAGS } from '../../cmd/ip-masq-ranges/flags.ts';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');

/**
 * Modules that reach nothing outside the process, or the names in them that do not. All others, and the globals that
 * `globalsOf` finds, must be in the last column of the table.
 */
const PURE: Readonly<Record<string, 'all' | readonly string[]>> = {
  'node:buffer': 'all',
  'node:crypto': 'all',
  'node:events': 'all',
  'node:net': ['BlockList', 'isIP', 'isIPv4', 'isIPv6'],
  'node:path': 'all',
  'node:timers/promises': 'all',
  'node:util': 'all',
  'node:v8': ['getHeapStatistics', 'setFlagsFromString'],
  'node:vm': ['runInNewContext'],
  'js-yaml': 'all',
};

const PURE_GLOBALS = ['arch', 'cpuUsage', 'memoryUsage', 'threadCpuUsage'].map(
  (member) => `process.${member}`,
);

interface Import {
  readonly file: string;
  readonly from: string;
  readonly typeOnly: boolean;
  /** What is imported at run time: names, `default`, or `*` for all. */
  readonly names: readonly string[];
}

/** A module, or a global with its member, that a file uses to reach out of the process. */
interface Reach {
  readonly file: string;
  readonly what: string;
}

/** What brings the config into the kernel and tells of it. The other folders of `lib` are leaves: it must work without them. */
const CORE = ['text', 'cidr', 'config', 'policy', 'netlink', 'dataplane', 'agent', 'log', 'status'];

/** A row of the table in CONTRIBUTING.md. */
interface Row {
  readonly folder: string;
  /** Without a file for the whole folder. */
  readonly mayReach: readonly { readonly file: string | undefined; readonly what: string }[];
}

const files = globSync('{cmd,lib}/**/*.{ts,js}', { cwd: ROOT }).toSorted();
const imports = files.flatMap((file) => importsOf(file, readFileSync(join(ROOT, file), 'utf8')));
const reaches = files.flatMap((file) => reachesOf(file, readFileSync(join(ROOT, file), 'utf8')));
/** Those from one folder to another. */
const between = imports.flatMap((one) => {
  const [own, other] = [folderOf(one.file), folderOf(one.from)];
  if (own === undefined || own === 'cmd/ip-masq-agent' || other === undefined) return [];
  return areRelated(own, other) ? [] : [{ ...one, own, other }];
});
const rows = rowsOf(readFileSync(join(ROOT, '.github/CONTRIBUTING.md'), 'utf8'));

describe('imports', () => {
  it('are of folders that have a row in the table, which has no others', () => {
    const folders = new Set(files.map((file) => folderOf(file)));
    assert.deepEqual(rows.map(({ folder }) => folder).toSorted(), [...folders].toSorted());
  });

  it('go from the core to no leaf, types included', () => {
    const isCore = (folder: string) => CORE.includes(folder.split('/')[0] ?? '');
    const wrong = between.filter(({ own, other }) => isCore(own) && !isCore(other));
    assert.deepEqual(wrong.map(describeImport), []);
    assert.ok(between.some(({ own, other }) => !isCore(own) && isCore(other)));
  });

  it('lead to nothing that is there for tests or builds only', () => {
    const wrong = imports.filter(({ from }) => /^(?:test|build|examples)\//.test(from));
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('go in no circle between files, types included', () => {
    assert.equal(circle(imports.map(({ file, from }) => ({ own: file, other: from }))), undefined);
  });

  it('go in no circle between folders', () => {
    assert.equal(circle(between), undefined);
  });

  it('lead from no command to another', () => {
    const wrong = imports.filter(({ file, from }) => {
      const [own, other] = [commandOf(file), commandOf(from)];
      return own !== undefined && other !== undefined && own !== other;
    });
    assert.deepEqual(wrong.map(describeImport), []);
  });

  it('take an npm module into one folder only', () => {
    const packages = imports.filter(({ from }) => folderOf(from) === undefined && !from.startsWith('node:'));
    for (const [name, of] of Map.groupBy(packages, ({ from }) => from))
      assert.equal(new Set(of.map(({ file }) => folderOf(file))).size, 1, name);
  });
});

describe('what reaches out of the process', () => {
  it('is in the files that the table names, and in no other', () => {
    const wrong = reaches.filter((reach) => {
      const { mayReach = [] } = rowOf(folderOf(reach.file)) ?? {};
      return !mayReach.some((named) => isNamed(reach, named));
    });
    const texts = wrong.map(({ file, what }) => `${file} uses ${what}`);
    assert.deepEqual(texts, []);
  });

  it('is all that the table names', () => {
    const idle = rows.flatMap(({ folder, mayReach }) => {
      const own = reaches.filter(({ file }) => folderOf(file) === folder);
      return mayReach
        .filter((named) => !own.some((reach) => isNamed(reach, named)))
        .map(({ file = '', what }) => `${folder}/${file} uses ${what}`);
    });
    assert.deepEqual(idle, []);
  });
});

describe('the code', () => {
  const uses = files
    .filter((file) => !/\/(?:flags|command-flags)\.ts$/.test(file))
    .map((file) => readFileSync(join(ROOT, file), 'utf8'))
    .join('');

  it('reads every flag', () => {
    const tables = [FLAGS, OWN_FLAGS, CHECK_FLAGS, RENDER_FLAGS, EXPLAIN_FLAGS, CLEANUP_FLAGS];
    const flags = tables.flatMap(Object.keys);
    for (const name of flags) {
      const asWord = `flags\\.${name}\\b|\\b${name}\\b[^}]*\\} = flags|flags: \\{[^}]*\\b${name}\\b`;
      assert.match(uses, new RegExp(name.includes('-') ? `'${name}'` : asWord), name);
    }
  });

  const own = files.filter((file) => !file.includes('.generated.'));

  for (const [name, pattern] of [
    ['runs no shell', /\bshell\s*:|\{[^}]*\bexec(?:Sync)?\b[^}]*\}\s*from|['"](?:\/bin\/)?(?:ba|da)?sh['"]/],
    [
      'never lists a whole table or ruleset',
      /ip6?tables(?:-nft|-legacy)?-save|['"]-save['"]|list ruleset|'ruleset'/,
    ],
    [
      'evaluates no text as code',
      /\beval\s*\(|new (?:Function|Script)\s*\(|\brunIn\w*Context\((?!'globalThis\.gc'\))/,
    ],
    ['has no default export', /^export default\b/m],
  ] as const) {
    it(name, () => {
      const wrong = own.flatMap((file) => {
        const found = pattern.exec(withoutComments(readFileSync(join(ROOT, file), 'utf8')));
        return found === null ? [] : [`${file}: ${found[0]}`];
      });
      assert.deepEqual(wrong, []);
    });
  }
});

function importsOf(file: string, text: string): readonly Import[] {
  const statement =
    /^\s*(?:import|export)\s+(?:(type)\s+)?(?:([\w*{][^'";]*?)\s+from\s+)?(['"])([^'"]+)\3|\b(?:import|require|getBuiltinModule)\(\s*(['"])([^'"]+)\5/gm;
  return [...withoutComments(text).matchAll(statement)].map(([, type, clause, , named, , called]) => {
    const from = named ?? called ?? '';
    return {
      file,
      from: from.startsWith('.') ? relative(ROOT, join(ROOT, dirname(file), from)) : from,
      typeOnly: type !== undefined,
      names: type === undefined ? namesOf(clause) : [],
    };
  });
}

/** The names in what is between `import` and `from`, which may be missing. */
function namesOf(clause = '*'): readonly string[] {
  const [, before = '', inBraces] = /^([^{]*)(?:\{(.*)\})?$/s.exec(clause) ?? [];
  const names = (inBraces ?? '').split(',').map((name) => name.trim().replace(/ as .*/, ''));
  const whole = before.includes('*') ? ['*'] : before.trim() === '' ? [] : ['default'];
  return [...whole, ...names.filter((name) => name !== '' && !name.startsWith('type '))];
}

/** What the file uses to reach out of the process. */
function reachesOf(file: string, text: string): readonly Reach[] {
  const modules = importsOf(file, text)
    .filter(({ from, names }) => folderOf(from) === undefined && !names.every((name) => isPure(from, name)))
    .map(({ from }) => from.replace(/\/promises$/, ''));
  return [...modules, ...globalsOf(text)].map((what) => ({ file, what }));
}

function isPure(module: string, name: string): boolean {
  const pure = PURE[module];
  return pure === 'all' || pure?.includes(name) === true;
}

/** The globals that reach out of the process, each with its member; `import` where the name of the module is computed. */
function globalsOf(text: string): readonly string[] {
  // Messages speak of processes.
  const bare = withoutComments(text).replace(/'[^'\n]*'|"[^"\n]*"/g, "''");
  const used =
    /(?<![\w$.])(?:(?:process|globalThis)(?:\??\.(?!getBuiltinModule\(''\))\w+|(?=[[;,)]))|(?:fetch|WebSocket|EventSource|console)\b(?:\.\w+)?|(?:import|require)\b(?=\((?!'')))/g;
  return [...bare.matchAll(used)]
    .map(([global]) => global.replace('?', ''))
    .filter((global) => !PURE_GLOBALS.includes(global));
}

/** The rows about folders of cmd and lib. */
function rowsOf(page: string): readonly Row[] {
  const cells = [...page.matchAll(/^\| `((?:cmd|lib)\/[^`]+)` \| (.*) \|$/gm)];
  return cells.map(([, path = '', reaching = '']) => ({
    folder: folderOf(`${path}/`) ?? '',
    mayReach: reaching.split(';').flatMap(mayReachOf),
  }));
}

/** @param part of a cell: files, what they do, and in parentheses what they use */
function mayReachOf(part: string): Row['mayReach'] {
  const inParentheses = /\([^)]*\)/g;
  const files = quotedIn(part.replace(inParentheses, ''));
  const used = quotedIn((part.match(inParentheses) ?? []).join(' '));
  return (files.length === 0 ? [undefined] : files).flatMap((file) => used.map((what) => ({ file, what })));
}

/** What stands between backquotes. */
function quotedIn(text: string): readonly string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, quoted = '']) => quoted);
}

function rowOf(folder: string | undefined): Row | undefined {
  return rows.find((row) => row.folder === folder);
}

/** A global that is named stands for all its members too. */
function isNamed(reach: Reach, { file, what }: Row['mayReach'][number]): boolean {
  if (file !== undefined && basename(reach.file) !== file) return false;
  return reach.what === what || reach.what.startsWith(`${what}.`);
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
}

/** `cmd` with the program, or the folder in lib with its subfolder; undefined for what is not the project's. */
function folderOf(path: string): string | undefined {
  const [top, ...folders] = path.split('/').slice(0, -1);
  if (top === 'cmd') return `cmd/${folders[0]}`;
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
