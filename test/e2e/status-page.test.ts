import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { temporaryDirectory } from '../lab/volume.ts';
import { createNode, type NodeLab } from './support.ts';

/** Takes a picture of the status page, as a reader sees it who prefers dark or light. */
async function picture(node: NodeLab, dir: string, scheme: 'dark' | 'light', size: string): Promise<Buffer> {
  const file = join(dir, `${scheme}-${size}.png`);
  const { stderr } = await node.box.run('chromium', [
    ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
    ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    '--hide-scrollbars',
    `--user-data-dir=${join(dir, `profile-${scheme}-${size}`)}`,
    `--blink-settings=preferredColorScheme=${scheme === 'dark' ? 0 : 1}`,
    `--window-size=${size}`,
    `--screenshot=${file}`,
    'http://127.0.0.1:9614/statusz',
  ]);
  return await readFile(file).catch(() => assert.fail(`no picture: ${stderr}`));
}

describe('the status page in a browser', { skip: process.getuid?.() !== 0 && 'needs root' }, () => {
  for (const size of ['390,844', '1280,800']) {
    it(`shows itself in light and dark at ${size}`, async () => {
      await using node = await createNode();
      await using scratch = await temporaryDirectory();
      const dir = process.env['PICTURES'] ?? scratch.path;
      const CIDRS = 'nonMasqueradeCIDRs: [10.1.0.0/16, 172.16.0.0/12]\n';
      await node.volume({ 'ip-masq-cloud': CIDRS, 'ip-masq-<script>': CIDRS });
      const agent = node.start('--metrics-bind-address=127.0.0.1:9614');
      await agent.logged(/metrics, probes and status on/);
      const light = await picture(node, dir, 'light', size);
      const dark = await picture(node, dir, 'dark', size);
      // A blank page of this size makes far less than this.
      for (const png of [light, dark]) assert.ok(png.length > 15_000, `${png.length} bytes`);
      assert.ok(!light.equals(dark));
      agent.kill('SIGTERM');
      assert.equal((await agent.ended).code, 0);
    });
  }
});
