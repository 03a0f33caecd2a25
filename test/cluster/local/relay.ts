// Runs in a node's network namespace: `relay.ts ADDRESS PORT`. Its parent sends it a socket that listens in the machine's
// network namespace (a socket stays in the one it was made in); what connects there is joined with the address in the node's.
import { connect, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream';

const [, , host = '', port = ''] = process.argv;

process.once('disconnect', () => process.exit());
process.once('message', (_message, server) => {
  (server as Server).on('connection', (client: Socket) => {
    // Either end may vanish at any time; then so does the other.
    pipeline(client, connect(Number(port), host), client, () => {});
  });
});
