/** Reads and changes nf_tables of the box that it is in, over netlink sockets. */
import { addElements } from '../../lib/netlink/change.ts';
import { Connection } from '../../lib/netlink/connection.ts';
import { NetlinkError } from '../../lib/netlink/error.ts';
import { NfTables } from '../../lib/netlink/nf-tables.ts';
import { type Events, openChangeWatch, type TableChange } from '../../lib/netlink/watch.ts';
import { answer } from './helper.ts';
import { type Answer, type Call, fromText, type Netlink, toText } from './netlink.ts';

const tables = new NfTables();
const connection = new Connection();
const watched = [
  { family: 'IPv4', table: 't' },
  { family: 'IPv4', table: 'nat', chains: ['POSTROUTING'] },
  { family: 'IPv4', table: 'kube-proxy', chains: [] },
] as const;
const heard: Events<TableChange>[] = [];

async function listen(): Promise<void> {
  for await (const changes of openChangeWatch(watched)) heard.push(changes);
}

const netlink: Netlink = {
  ownPort: async () => tables.port,
  generation: () => tables.generation(),
  table: (name) => tables.table(name),
  chain: (name) => tables.chain(name),
  chains: (name) => tables.chains(name),
  sets: (name) => tables.sets(name),
  objects: (name) => tables.objects(name),
  rules: (...values) => tables.rules(...values),
  elements: (...values) => tables.elements(...values),
  commit: (...values) => tables.commit(...values),
  natChains: () => tables.natChains(),
  changes: async () => heard.splice(0),
  async raw(messages) {
    const requests = messages.map(({ attributes, ...one }) => {
      return { ...one, attributes: [Buffer.from(attributes, 'hex')] };
    });
    await connection.change('change anything', requests);
  },
  async flood(times, count) {
    using watch = openChangeWatch(watched);
    const ranges = Array.from({ length: count }, (_, index) => {
      return { first: 2n * BigInt(index), last: 2n * BigInt(index) };
    });
    const set = { family: 'IPv4', table: 't', set: 's' } as const;
    const anew = [
      { kind: 'delete set', ...set },
      { kind: 'add set', ...set, counts: false, comment: '' },
    ] as const;
    for (let time = 0; time < times; time += 1)
      await tables.commit(time % 2 === 0 ? addElements(set, ranges) : anew);
    const told: Events<TableChange>[] = [];
    for await (const events of watch) {
      told.push(events);
      if (told.length === 2) break;
      await tables.commit(addElements(set, [{ first: 1n, last: 1n }]));
    }
    return told;
  },
};

listen();
answer<string, string>(async (text) => {
  const { method, values } = fromText(text) as Call;
  const call = netlink[method] as (...values: readonly unknown[]) => Promise<unknown>;
  // JSON has no undefined.
  const reply = await call(...values.map((value) => value ?? undefined)).then(
    (value): Answer => ({ value }),
    (error: unknown): Answer => {
      if (!(error instanceof NetlinkError)) throw error;
      return { failure: error.failure, message: error.message, code: error.code };
    },
  );
  return toText(reply);
});
