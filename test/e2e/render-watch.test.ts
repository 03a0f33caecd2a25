import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Fetched } from '../lab/fetcher.ts';
import { startFetcher } from '../lab/helpers.ts';
import { createNode, eventually, type NodeLab, type RunningAgent } from './support.ts';

/** A node with a sidecar's output directory. */
interface SidecarLab {
  readonly node: NodeLab;
  readonly outDir: string;
  readonly out: string;
  start(...args: string[]): RunningAgent;
  /** Waits until the output file has that content, or is gone. */
  outputIs(text: string | undefined): Promise<void>;
}

async function withSidecar(test: (lab: SidecarLab) => Promise<void>): Promise<void> {
  await using node = await createNode();
  const outDir = join(node.dir, 'out');
  const out = join(outDir, 'ip-masq-agent');
  await mkdir(outDir);
  const args = ['render', '--format=config', `--output-file=${out}`, '--watch', '--resync-interval=1h'];
  await test({
    node,
    outDir,
    out,
    start: (...more) => node.start(...args, ...more),
    outputIs: async (text) => {
      let now: string | undefined;
      await eventually(
        async () => {
          now = await contentOf(out);
          return now === text;
        },
        () => `the output to be\n${text}; it is\n${now}`,
      );
    },
  });
}

const LIST_LENGTH = 60;

/** A config file that is long enough to be caught half-written. */
function version(number: number): { readonly 'ip-masq-x': string } {
  const list = Array.from({ length: LIST_LENGTH }, (_, index) => `10.${number}.${2 * index}.0/24`);
  return { 'ip-masq-x': `nonMasqueradeCIDRs:\n${list.map((cidr) => `- ${cidr}\n`).join('')}` };
}

/** What the sidecar makes of it. */
function outputOf(number: number): string {
  const items = Array.from(
    { length: LIST_LENGTH },
    (_, index) => `  - 10.${number}.${2 * index}.0/24 # ip-masq-x:${index + 2}:3\n`,
  );
  return `# Merged by ip-masq-agent from ip-masq-x\nnonMasqueradeCIDRs:\n${items.join('')}masqLinkLocal: false # built in (default)\n`;
}

describe('the sidecar', () => {
  it('removes the file when the last config file goes, because its reader has defaults; and makes it again', () =>
    withSidecar(async ({ node, outDir, start, outputIs }) => {
      const volume = await node.volume(version(1));
      const sidecar = start();
      await outputIs(outputOf(1));
      await volume.swap({});
      await outputIs(undefined);
      assert.deepEqual(await readdir(outDir), []);
      await sidecar.logged(/output removed/);
      await volume.swap(version(2));
      await outputIs(outputOf(2));
      await sidecar.stop();
    }));

  it('puts back at the resync what somebody else has changed or removed', () =>
    withSidecar(async ({ node, out, start, outputIs }) => {
      await node.volume(version(1));
      const sidecar = start('--resync-interval=100ms');
      await outputIs(outputOf(1));
      await writeFile(out, 'changed by hand\n');
      await outputIs(outputOf(1));
      await rm(out);
      await outputIs(outputOf(1));
      await sidecar.stop();
    }));
});

const PROBED = '--health-bind-address=127.0.0.1:9615';

/** Asks the sidecar's server as a probe does. */
async function startProbe(node: NodeLab) {
  const fetcher = await startFetcher(node.box);
  const ask = (path: string) => fetcher.ask({ url: `http://127.0.0.1:9615${path}` });
  const readyz = async (isWanted: (answer: Fetched) => boolean) => {
    let now: Fetched | undefined;
    await eventually(
      async () => {
        now = await ask('/readyz');
        return isWanted(now);
      },
      () => `another answer of /readyz; it is ${JSON.stringify(now)}`,
    );
    return now?.body ?? '';
  };
  return { ask, readyz, [Symbol.asyncDispose]: () => fetcher[Symbol.asyncDispose]() };
}

describe('the probes of the sidecar', () => {
  it('say that the output file is of the current volume version, and answer nothing else', () =>
    withSidecar(async ({ node, start, out }) => {
      const volume = await node.volume(version(1));
      await using probe = await startProbe(node);
      const sidecar = start(PROBED);
      await sidecar.logged(/"probes on http:\/\/127\.0\.0\.1:9615: \/healthz \/readyz"/);
      assert.equal(await probe.readyz(({ status }) => status === 200), 'ok\n');
      for (const number of [2, 3, 4]) {
        await volume.swap(version(number));
        // From the moment of the swap: either it is not ready, or the file is the new one.
        await probe.readyz(({ status }) => status === 200);
        assert.equal(await contentOf(out), outputOf(number));
      }
      for (const reason of ['start', 'change'])
        await sidecar.logged(new RegExp(`"reason":"${reason}","file":"${out}","msg":"output written"`));
      assert.deepEqual(await probe.ask('/healthz').then(({ status, body }) => [status, body]), [200, 'ok\n']);
      for (const path of ['/metrics', '/configz', '/statusz', '/'])
        assert.equal((await probe.ask(path)).status, 404, path);
      await sidecar.stop();
      assert.equal(await contentOf(out), outputOf(4));
    }));

  it('say with --on-invalid-config=keep what is wrong, and that it is mended', () =>
    withSidecar(async ({ node, out, start, outputIs }) => {
      const volume = await node.volume(version(1));
      await using probe = await startProbe(node);
      const sidecar = start(PROBED, '--on-invalid-config=keep');
      await outputIs(outputOf(1));
      const before = await stat(out);
      await volume.swap({ 'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0]\n' });
      const reason = await probe.readyz(({ body }) => body.includes('[-] config'));
      assert.match(
        reason,
        /^\[-\] config: 1 error in the config since .*, the first is ip-masq-x:1:22: error: .*\n\[-\] volume-version: the output file is not of the current volume version yet\nnot ok\n$/,
      );
      assert.equal((await probe.ask('/healthz')).status, 200);
      assert.equal((await stat(out)).ino, before.ino);
      await sidecar.logged(/1 error in the config; the output file does not change/);
      sidecar.kill('SIGKILL');
      await sidecar.ended;

      const next = start(PROBED, '--on-invalid-config=keep');
      await probe.readyz(({ body }) => body.includes('no render has succeeded yet'));
      await outputIs(outputOf(1));
      await volume.swap(version(2));
      await probe.readyz(({ status }) => status === 200);
      await outputIs(outputOf(2));
      await next.logged(/the config is valid again/);
      await next.stop();
    }));
});

describe('the sidecar ends, and the output file does not change:', () => {
  it('with exit code 3 at a bad config, and the termination log says why', () =>
    withSidecar(async ({ node, out, outDir, start, outputIs }) => {
      const volume = await node.volume(version(1));
      const terminationLog = join(node.dir, 'termination-log');
      await writeFile(terminationLog, 'an older reason', { mode: 0o666 });
      const sidecar = start(`--termination-log=${terminationLog}`);
      await outputIs(outputOf(1));
      const before = await stat(out);
      await volume.swap({ 'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0]\n' });
      assert.deepEqual(await sidecar.ended, { code: 3, signal: null });
      await outputIs(outputOf(1));
      assert.equal((await stat(out)).ino, before.ino);
      assert.deepEqual(await readdir(outDir), ['ip-masq-agent']);
      assert.match(
        await readFile(terminationLog, 'utf8'),
        /^1 error in the config; the output file does not change\nip-masq-x:1:22: error: .*\n$/,
      );
    }));

  it('with exit code 3 at a bad config and no output file, also with --on-invalid-config=keep', () =>
    withSidecar(async ({ node, start, outputIs }) => {
      await node.volume({ 'ip-masq-x': 'nonMasqueradeCIDRs: [10.0.0.0]\n' });
      assert.equal((await start('--on-invalid-config=keep').ended).code, 3);
      await outputIs(undefined);
    }));

  it('with exit code 1 when the output cannot be written, and says what to do', () =>
    withSidecar(async ({ node, out, start, outputIs }) => {
      const volume = await node.volume(version(1));
      const sidecar = start('--log-format=text');
      await outputIs(outputOf(1));
      await rm(out);
      await mkdir(out);
      await volume.swap(version(2));
      assert.equal((await sidecar.ended).code, 1);
      assert.match(sidecar.log(), /FATAL .*--output-file/);
    }));
});

describe('a reader of the output', () => {
  it('sees only complete ones, however often the config files are swapped and the sidecar is killed', () =>
    withSidecar(async ({ node, out, outDir, start, outputIs }) => {
      const known = new Map(Array.from({ length: 250 }, (_, number) => [outputOf(number), number]));
      const volume = await node.volume(version(0));
      let sidecar = start();
      await outputIs(outputOf(0));
      const seen = new Set<number | undefined>();
      let swapping = true;
      const reader = (async () => {
        while (swapping) {
          const text = await readFile(out, 'utf8');
          assert.ok(known.has(text), `a half-written output:\n${text}`);
          seen.add(known.get(text));
        }
      })();
      for (let number = 1; number < known.size; number += 1) {
        await volume.swap(version(number));
        // From a swap to the end of its write it takes some milliseconds: the kills spread around that.
        await delay(number % 7);
        // At full speed the sidecar passes over volume versions: it gets the time for some of them.
        if (number % 8 === 0)
          await eventually(
            () => seen.has(number),
            () => `output ${number}`,
          );
        if (number % 15 !== 0) continue;
        sidecar.kill('SIGKILL');
        await sidecar.ended;
        sidecar = start('--v=3');
        await sidecar.logged(/"reason":"start"/);
      }
      await outputIs(outputOf(known.size - 1));
      swapping = false;
      await reader;
      assert.deepEqual(await readdir(outDir), ['ip-masq-agent']);
      await sidecar.stop();
    }));
});

async function contentOf(path: string): Promise<string | undefined> {
  return await readFile(path, 'utf8').catch(() => undefined);
}
