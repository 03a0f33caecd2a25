/**
 * Writes the pictures of the status page in docs/, from an agent at work. The page shows the name of the machine, so give it one:
 * unshare --uts sh -c 'hostname worker-1 && node test/programs/pictures.ts'
 */
import { writeFile } from 'node:fs/promises';
import { createNode } from '../e2e/support.ts';
import { startChromium } from './chromium.ts';

const ADDRESS = '127.0.0.1:9614';
const WIDTH = 1000;
const CONFIG_FILES = {
  'ip-masq-cloud':
    'nonMasqueradeCIDRs:\n  - 10.224.0.0/12 # the virtual network\n  - 10.0.0.0/16 # services\n',
  'ip-masq-operator':
    'nonMasqueradeCIDRs:\n  - 172.16.0.0/12\nmasqueradeCIDRs:\n  - 172.20.99.0/24 # the partner accepts only the nodes\n',
};
/** What Docker writes for its own containers. */
const FOREIGN = ['-s', '172.17.0.0/16', '!', '-o', 'docker0', '-j', 'MASQUERADE'];

await using node = await createNode();
await node.volume(CONFIG_FILES);
await node.iptables('-A', 'POSTROUTING', ...FOREIGN);
const agent = node.start(`--metrics-bind-address=${ADDRESS}`);
await agent.logged(/rule of Docker/);
await using browser = await startChromium(node.box);
for (const scheme of ['light', 'dark'] as const) {
  const file = new URL(`../../docs/status-${scheme}.png`, import.meta.url);
  await writeFile(file, await browser.picture(`http://${ADDRESS}/statusz`, WIDTH, scheme));
}
