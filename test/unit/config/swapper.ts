/** A worker that changes a config directory until it is told to end, while its test reads it. */
import { mkdir, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { type Files, ProjectedVolume } from '../../lab/volume.ts';

/** How the directory changes. */
export type Swapping = keyof typeof SWAPPINGS;

/** A volume version whose files all hold its number; which files there are changes too. */
export function versionFiles(number: number): Files {
  const present = ['a', ...(number % 2 === 0 ? ['b'] : []), ...(number % 3 === 0 ? ['c', 'd'] : []), 'e'];
  const files = Object.fromEntries(present.map((name) => [`ip-masq-${name}`, `${number}\n`]));
  return { ...files, other: '[' };
}

async function swaps(dir: string, running: () => boolean): Promise<void> {
  const volume = new ProjectedVolume(dir);
  for (let number = 1; running(); number += 1) {
    await volume.swap(versionFiles(number));
    await delay(number % 4);
  }
}

/** Takes an old volume version away file by file, and its directory after a while. */
async function slowRemoval(dir: string, running: () => boolean): Promise<void> {
  const path = (name: string): string => join(dir, name);
  for (let number = 1; running(); number += 1) {
    await mkdir(path(`..${number}`));
    for (const name of ['a', 'b']) await writeFile(path(`..${number}/ip-masq-${name}`), `${number}`);
    await symlink(`..${number}`, path('..data_tmp'));
    await rename(path('..data_tmp'), path('..data'));
    if (number > 1) await unlink(path(`..${number - 1}/ip-masq-a`));
    await delay(3);
    if (number > 1) await rm(path(`..${number - 1}`), { recursive: true });
  }
}

/** Replaces one file of a plain directory, makes and removes another, each complete from the beginning. */
async function renames(dir: string, running: () => boolean): Promise<void> {
  const path = (name: string): string => join(dir, name);
  for (let round = 0; running(); round += 1) {
    await writeFile(path('new'), `${round % 10}`.repeat(50_000));
    await rename(path('new'), path('ip-masq-a'));
    await writeFile(path('new'), '');
    await rename(path('new'), path('ip-masq-b'));
    await unlink(path('ip-masq-b'));
  }
}

const SWAPPINGS = { swaps, 'slow-removal': slowRemoval, renames } as const;

const port = parentPort;
if (port !== null) {
  const { dir, swapping }: { dir: string; swapping: Swapping } = workerData;
  let running = true;
  port.once('message', () => {
    running = false;
  });
  await SWAPPINGS[swapping](dir, () => running);
}
