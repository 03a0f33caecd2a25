import { execFileSync } from 'node:child_process';

/** What the loader tells the program beside what Node.js tells a module: whether V8 has taken the compiled code. */
const NAMES = 'exports, require, module, __filename, __dirname, IS_PRECOMPILED';

/**
 * The program that Node.js runs. It reads the text of the bundle, and behind it V8's compiled code, from one file: so they are
 * never of two builds. V8 refuses the code of another Node.js, but does not notice damage; the sum does.
 */
export const LOADER = `'use strict';
const { readFileSync } = require('node:fs');
const { Script } = require('node:vm');
const filename = __filename + '.bundle';
const bytes = readFileSync(filename);
const end = bytes.indexOf(0);
const start = Math.ceil((end + 1) / 8) * 8;
const length = Math.max(0, bytes.length - start);
const words = new Int32Array(bytes.buffer, bytes.byteOffset + (length && start), length >> 2);
let sum = 0;
for (let index = 0; index < words.length; index += 1) sum = (Math.imul(sum, 31) + words[index]) | 0;
const code = sum === 0 ? { cachedData: bytes.subarray(start, -4) } : {};
const script = new Script(bytes.latin1Slice(0, end), { filename, ...code });
script.runInThisContext()(exports, require, module, __filename, __dirname, script.cachedDataRejected === false);
`;

/**
 * Compiles its input, with all functions: those of a run would differ from run to run, as would the kernels of build machines.
 */
const COMPILE = "process.stdout.write(new vm.Script(fs.readFileSync(0, 'latin1')).createCachedData())";

/** The second makes the same bytes each time. Both change the hash of V8's flags, which is at these bytes. */
const COMPILE_FLAGS = ['--no-lazy', '--hash-seed=1'];
const FLAG_HASH = [12, 16] as const;

/**
 * The file that the loader reads.
 *
 * @param body a CommonJS module in ASCII
 * @param node the command of the Node.js that will run it
 */
export function withCompiledCode(body: string, node: readonly string[]): Buffer {
  const text = Buffer.from(`(function (${NAMES}) {${body}\n})`);
  const code = compile(node, COMPILE_FLAGS, text);
  compile(node, [], Buffer.alloc(0)).copy(code, FLAG_HASH[0], ...FLAG_HASH);
  const words = new Int32Array(Math.ceil(code.length / 4) + 1);
  const all = Buffer.from(words.buffer);
  code.copy(all);
  // The last word, which is still 0, makes the sum 0.
  words[words.length - 1] = -words.reduce((sum, word) => (Math.imul(sum, 31) + word) | 0, 0);
  return Buffer.concat([text, Buffer.alloc(8 - (text.length % 8)), all]);
}

function compile([file = '', ...args]: readonly string[], flags: readonly string[], text: Buffer): Buffer {
  const options = { input: text, env: {}, maxBuffer: 64 * 1024 * 1024 };
  return execFileSync(file, [...args, ...flags, '-e', COMPILE], options);
}
