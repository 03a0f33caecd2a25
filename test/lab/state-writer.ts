import fs, { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { capturedLog } from './log.ts';

// Keeps two configs in a directory one after the other, and is killed at a step of the second, of which it has done half. Prints
// which of them is there then. Usage: state-writer.ts DIR [STEP]
const [dir = '', step] = process.argv.slice(2);
let steps = 0;
let isSecond = false;

function die(): never {
  process.kill(process.pid, 'SIGKILL');
  for (;;);
}

function isLast(): boolean {
  if (isSecond) steps += 1;
  return steps === Number(step);
}

await using file = await open('/dev/null');
const handle = Object.getPrototypeOf(file);
const { writeFile, sync } = handle;
handle.sync = function (...args: unknown[]) {
  return isLast() ? die() : sync.apply(this, args);
};
handle.writeFile = async function (text: string) {
  const isHalf = isLast();
  await writeFile.call(this, isHalf ? text.slice(0, text.length / 2) : text);
  if (isHalf) die();
};
for (const name of ['open', 'rename', 'rm'] as const) {
  const usual: (...args: never[]) => Promise<unknown> = fs[name];
  Object.assign(fs, { [name]: (...args: never[]) => (isLast() ? die() : usual(...args)) });
}
syncBuiltinESMExports();
const { KeptConfigFile } = await import('../../lib/agent/kept-config.ts');
const { Notices } = await import('../../lib/log/notices.ts');
const state = new KeptConfigFile(dir, new Notices(capturedLog().log));
for (const word of ['old ', 'new ']) {
  isSecond = word === 'new ';
  await state.keep([{ name: 'ip-masq-a', text: `# ${word.repeat(5_000)}\n` }]);
}
isSecond = false;
const [kept] = (await state.read())?.configFiles ?? [];
console.log(`${kept?.text.length === 20_003 ? kept.text.slice(2, 5) : 'none'} ${steps}`);
