/**
 * Adds V8's compiled code to a bundle. Run as a program it does that in the place of `packedTexts`, which has written FILE: the image
 * for another CPU is bundled here, and compiled by its own Node.js.
 * Usage: node build/code-cache.ts FILE
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

/** The length of the index is in the first bytes of a bundle. */
const HEAD_BYTES = 8;

/** What a module gets: what Node.js gives to one, whether V8 has taken all compiled code so far, and a lighter clock. */
const NAMES = 'exports, require, module, __filename, __dirname, isPrecompiled, performance';

/**
 * The program that Node.js runs. It loads parts of the bundle, each with V8's compiled code behind its text: so they are never
 * of two builds. Some are loaded late, so the file stays open: a new build replaces it. V8 refuses the code of another
 * Node.js, but does not notice damage; the sum does.
 */
export const LOADER = `'use strict';
const { openSync, readSync } = require('node:fs');
const { Script } = require('node:vm');
const filename = __filename + '.bundle';
const file = openSync(filename);
const read = (position, length) => {
  const bytes = Buffer.allocUnsafeSlow(length);
  return bytes.subarray(0, readSync(file, bytes, 0, length, position));
};
const indexLength = Number(read(0, ${HEAD_BYTES}).latin1Slice());
const { entries, partOf, parts } = JSON.parse(read(${HEAD_BYTES}, indexLength).latin1Slice());
const functions = {};
const modules = {};
let arePrecompiled = true;
const isPrecompiled = () => arePrecompiled;
// The global one loads eleven modules of Node.js: 2 ms.
const performance = {
  now: () => process.uptime() * 1000,
  // Once: a clock that is set moves no deadline.
  timeOrigin: Date.now() - process.uptime() * 1000,
};
function loadPart(name) {
  const [position, end, start, length] = parts[name];
  const bytes = read(${HEAD_BYTES} + indexLength + position, length);
  const words = new Int32Array(bytes.buffer, start, Math.max(0, bytes.length - start) >> 2);
  let sum = 0;
  for (let index = 0; index < words.length; index += 1) sum = ((sum << 5) - sum + words[index]) | 0;
  const code = sum === 0 ? { cachedData: bytes.subarray(start, -4) } : {};
  const script = new Script(bytes.latin1Slice(0, end), { filename: filename + '/' + name, ...code });
  arePrecompiled &&= script.cachedDataRejected === false;
  Object.assign(functions, script.runInThisContext());
}
function requireModule(name) {
  if (!(name in partOf)) return require(name);
  if (!(name in modules)) {
    if (!(name in functions)) loadPart(partOf[name]);
    const own = (modules[name] = { exports: {} });
    functions[name](own.exports, requireModule, own, __filename, __dirname, isPrecompiled, performance);
  }
  return modules[name].exports;
}
entries.forEach(requireModule);
`;

/**
 * Compiles the texts, with all functions: those of a run would differ from run to run, as would the kernels of build machines.
 */
const COMPILE = `const compile = (text) => new vm.Script(text).createCachedData().toString('base64');
process.stdout.write(JSON.stringify(JSON.parse(fs.readFileSync(0, 'utf8')).map(compile)))`;

/** The second makes the same bytes each time. Both change the hash of V8's flags, which is at these bytes. */
const COMPILE_FLAGS = ['--no-lazy', '--hash-seed=1'];
const FLAG_HASH = [12, 16] as const;

/** CommonJS modules in ASCII, by the names with which one requires another. */
type Modules = ReadonlyMap<string, string>;

/**
 * Makes a file of the bundle.
 *
 * @param entries the modules to start with, one after the other
 * @param modulesOf the modules of each part
 */
export type Pack = (entries: readonly string[], modulesOf: ReadonlyMap<string, Modules>) => Buffer | string;

/** What this file as a program makes the bundle of. */
export const packedTexts: Pack = (entries, modulesOf) =>
  JSON.stringify([entries, Array.from(modulesOf, ([name, modules]) => [name, [...modules]])]);

/** The file that the loader reads, for the Node.js that runs this. */
export function withCompiledCode(...[entries, modulesOf]: Parameters<Pack>): Buffer {
  const texts = Array.from(modulesOf.values(), partText);
  const codes = compile(COMPILE_FLAGS, texts);
  const [empty] = compile([], ['']);
  const partOf: Record<string, string> = {};
  const parts: Record<string, readonly number[]> = {};
  const content: Buffer[] = [];
  let length = 0;
  for (const [index, [name, modules]] of [...modulesOf].entries()) {
    for (const module of modules.keys()) partOf[module] = name;
    const text = Buffer.from(texts[index] ?? '');
    const start = Math.ceil(text.length / 8) * 8;
    const code = codes[index] ?? Buffer.alloc(0);
    empty?.copy(code, FLAG_HASH[0], ...FLAG_HASH);
    const part = Buffer.concat([text, Buffer.alloc(start - text.length), withSum(code)]);
    parts[name] = [length, text.length, start, part.length];
    content.push(part);
    length += part.length;
  }
  const index = JSON.stringify({ entries, partOf, parts });
  return Buffer.concat([Buffer.from(`${index.length}`.padEnd(HEAD_BYTES)), Buffer.from(index), ...content]);
}

function partText(modules: Modules): string {
  const functions = Array.from(
    modules,
    ([name, body]) => `${JSON.stringify(name)}(${NAMES}) {'use strict';${body}\n}`,
  );
  return `({${functions.join()}})`;
}

/** The code with a last word that makes the sum of all words 0. */
function withSum(code: Buffer): Buffer {
  const words = new Int32Array(Math.ceil(code.length / 4) + 1);
  const all = Buffer.from(words.buffer);
  code.copy(all);
  words[words.length - 1] = -words.reduce((sum, word) => ((sum << 5) - sum + word) | 0, 0);
  return all;
}

function compile(flags: readonly string[], texts: readonly string[]): readonly Buffer[] {
  const options = { input: JSON.stringify(texts), env: {}, maxBuffer: 64 * 1024 * 1024 };
  const printed = execFileSync(process.execPath, [...flags, '-e', COMPILE], options).toString();
  return JSON.parse(printed).map((code: string) => Buffer.from(code, 'base64'));
}

if (import.meta.main) {
  const [file = ''] = process.argv.slice(2);
  const [entries, parts]: [string[], [string, [string, string][]][]] = JSON.parse(readFileSync(file, 'utf8'));
  const modulesOf = new Map(parts.map(([name, modules]) => [name, new Map(modules)]));
  writeFileSync(file, withCompiledCode(entries, modulesOf));
}
