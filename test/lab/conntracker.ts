/** Makes, reads and deletes flows in the connection tracking of the box that it is in. */
import { Conntrack, type Flow } from '../../lib/netlink/conntrack.ts';
import { attribute, errnoIn, messagesIn, writeMessage } from '../../lib/netlink/messages.ts';
import { NetlinkSocket } from '../../lib/netlink/socket.ts';
import { answer } from './helper.ts';
import { fromText, toText } from './netlink.ts';

/** What is done. */
export type Deed =
  /** Makes so many UDP flows of IPv4 from 10.244.0.0/16 that leave as 192.0.2.1. */
  | { readonly kind: 'fill'; readonly flows: number }
  | { readonly kind: 'read'; readonly family?: Flow['family'] }
  | { readonly kind: 'delete'; readonly flow: Flow };

const [CREATE, IPCTNL_MSG_CT_NEW] = [0x400, 0x0100];
const MADE_AT_ONCE = 200;

function fill(flows: number): void {
  const socket = new NetlinkSocket();
  for (let made = 0; made < flows; made += MADE_AT_ONCE) {
    const some = Array.from({ length: Math.min(MADE_AT_ONCE, flows - made) }, (_, index) =>
      writeMessage(creation(made + index), made + index + 1),
    );
    socket.send(Buffer.concat(some), 'make flows');
    for (let bytes = socket.receive(); bytes !== undefined; bytes = socket.receive())
      for (const message of messagesIn(bytes))
        if (errnoIn(message) !== 0) throw new Error(`cannot make a flow: errno ${errnoIn(message)}`);
  }
  socket.close();
}

/** From 10.244.a.b:5000 to one of 8 destinations, each flow with a port of its own to it. */
function creation(number: number) {
  const pod = Buffer.from([10, 244, (number >> 8) & 0xff, number & 0xff]);
  const to = Buffer.from([203, 0, 113, number & 7]);
  const sourcePort = 5000 + (number >> 16);
  const natPort = 1024 + ((number >> 3) % 64_000);
  const tuple = (type: number, source: Buffer, destination: Buffer, ports: readonly [number, number]) =>
    attribute(type, [
      attribute(1, [attribute(1, source), attribute(2, destination)]),
      attribute(2, [
        attribute(1, Buffer.from([17])),
        attribute(2, port(ports[0])),
        attribute(3, port(ports[1])),
      ]),
    ]);
  const timeout = Buffer.from([0, 0, 0x0e, 0x10]);
  return {
    type: IPCTNL_MSG_CT_NEW,
    flags: CREATE | 4,
    protocol: 2,
    attributes: [
      tuple(1, pod, to, [sourcePort, 53]),
      tuple(2, to, Buffer.from([192, 0, 2, 1]), [53, natPort]),
      attribute(7, timeout),
    ],
  };
}

function port(number: number): Buffer {
  return Buffer.from([number >> 8, number & 0xff]);
}

async function read(family?: Flow['family']): Promise<readonly Flow[]> {
  using conntrack = new Conntrack();
  const all: Flow[] = [];
  await conntrack.flows(
    family,
    (flow) => all.push(flow),
    () => {},
  );
  return all;
}

answer<string, string>(async (text) => {
  const deed = fromText(text) as Deed;
  switch (deed.kind) {
    case 'fill':
      fill(deed.flows);
      return toText(true);
    case 'read':
      return toText(await read(deed.family));
    case 'delete': {
      using conntrack = new Conntrack();
      return toText(conntrack.delete(deed.flow));
    }
  }
});
