import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { PORT, type Seen } from './errands.ts';

/** How often the servers look for new addresses of their own. */
const LOOK_MS = 1_000;

/** Tells every client the source of its packets: at once over TCP, and again for each line; over UDP for each datagram. */
export function startServers(name: string): void {
  const answer = (source = '') => {
    const seen: Seen = { source: source.replace(/^::ffff:/, ''), server: name };
    return `${JSON.stringify(seen)}\n`;
  };
  const server = createServer({ noDelay: true }, (socket) => {
    const line = answer(socket.remoteAddress);
    socket.on('error', () => {});
    socket.on('data', (data) => socket.write(line.repeat(data.filter((byte) => byte === 10).length)));
    socket.write(line);
  });
  server.listen(PORT);
  const open = new Set<string>();
  const openAll = () => {
    for (const address of ownAddresses().filter((own) => !open.has(own))) {
      open.add(address);
      const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
      socket.on('message', (_, from) => socket.send(answer(from.address), from.port, from.address));
      // An address may go away while the node's network changes.
      socket.on('error', (error) => {
        console.error(`${address}: ${error.message}`);
        socket.close();
      });
      socket.on('close', () => open.delete(address));
      socket.bind(PORT, address);
    }
  };
  // A socket for all addresses would answer from the address that the route prefers, not from the one that was asked. A
  // new IPv6 address cannot be used at once (RFC 4862, section 5.4), and the bridge of the pods may come later than this.
  openAll();
  setInterval(openAll, LOOK_MS);
}

/** The addresses of all links, but for those that are valid on one link only. */
function ownAddresses(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.map(({ address }) => address).filter((address) => !address.startsWith('fe80:'));
}
