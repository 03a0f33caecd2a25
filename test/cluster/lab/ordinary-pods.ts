import { fileURLToPath } from 'node:url';
import { readLines } from '../../lab/lines.ts';
import { localNode } from './local-node.ts';
import type { List, Pod } from './objects.ts';
import type { Count, Counts } from './packet-counter.ts';
import { addressIn } from './packets.ts';
import type { Lab, LabNode } from './scenario.ts';

/** Pods without tolerations for one node, which send packets to the other one from their first moment on. */
export interface OrdinaryPods extends Disposable {
  /** The names of those that are bound to the node now. */
  names(): Promise<readonly string[]>;
  /** What has arrived from each of those that have sent. */
  present(): Promise<readonly Count[]>;
}

/** So many wait for the node, beside the one of a DaemonSet. */
const REPLICAS = 3;
/** How many ordinary pods the node gets. */
export const ORDINARY = REPLICAS + 1;
const PORT = 18_618;
const EVERY_MS = 20;
const COUNTER = fileURLToPath(new URL('packet-counter.ts', import.meta.url));
const LABELS = { ordinary: 'true' };

/** Each packet has a port of its own: it is the first of a connection, whose verdict the rules of that moment decide. */
const SENDER = `
const { createSocket } = require('node:dgram');
const { POD_NAME, ADDRESS } = process.env;
setInterval(() => {
  const socket = createSocket('udp4').on('error', () => socket.close());
  socket.send(POD_NAME, ${PORT}, ADDRESS, () => socket.close());
}, ${EVERY_MS});
process.on('SIGTERM', () => process.exit());
`;

/** Starts a Deployment and a DaemonSet on the one node, and counts on the other. They end with the lab's namespace. */
export async function startOrdinaryPods(lab: Lab, node: LabNode, other: LabNode): Promise<OrdinaryPods> {
  const { cluster, kubectl } = lab;
  const address = addressIn(other.addresses, 'IPv4');
  const counter = localNode(cluster, other).spawn(process.execPath, [COUNTER, address, `${PORT}`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  if (counter.stdout === null) throw new Error('a counter has an output');
  const lines = readLines(counter.stdout, 'the counts of packets');
  const spec = { selector: { matchLabels: LABELS }, template: template(cluster.image, node.name, address) };
  const kinds = [
    { kind: 'Deployment', spec: { ...spec, replicas: REPLICAS } },
    { kind: 'DaemonSet', spec },
  ];
  await kubectl.apply(
    ...kinds.map((object) => ({ apiVersion: 'apps/v1', metadata: { name: 'ordinary' }, ...object })),
  );
  const names: OrdinaryPods['names'] = async () => {
    const selector = ['--selector=ordinary', `--field-selector=spec.nodeName=${node.name}`];
    const { items } = await kubectl.get<List<Pod>>('pods', ...selector);
    return items.map(({ metadata }) => metadata.name);
  };
  const counts = async (): Promise<Counts> => {
    counter.stdin?.write('\n');
    return JSON.parse((await lines.next(() => true)).text);
  };
  return {
    names,
    present: async () => {
      const [bound, found] = await Promise.all([names(), counts()]);
      return bound.flatMap((name) => found[name] ?? []);
    },
    [Symbol.dispose]: () => {
      counter.kill('SIGKILL');
    },
  };
}

function template(image: string, node: string, address: string): object {
  return {
    metadata: { labels: LABELS },
    spec: {
      nodeSelector: { 'kubernetes.io/hostname': node },
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      dnsPolicy: 'Default',
      terminationGracePeriodSeconds: 1,
      containers: [
        {
          name: 'sender',
          image,
          command: ['node', '-e', SENDER],
          env: [
            { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
            { name: 'ADDRESS', value: address },
          ],
        },
      ],
    },
  };
}
