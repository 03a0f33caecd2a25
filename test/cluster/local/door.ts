import { fork } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { toolEnvironment } from './environment.ts';
import { API_PORT, apiServer } from './network.ts';
import type { Node } from './node.ts';
import type { Families } from './options.ts';

const RELAY = fileURLToPath(new URL('relay.ts', import.meta.url));

/** Makes the API server reachable from this machine, as long as this process lives; returns its address there. */
export async function openDoor(node: Node, families: Families): Promise<string> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const relay = fork(RELAY, [apiServer(families), `${API_PORT}`], {
    env: toolEnvironment(),
    execPath: 'nsenter',
    execArgv: ['--target', `${node.pid}`, '--net', '--', process.execPath],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await once(relay, 'spawn');
  // From now on only the relay accepts: this process must not.
  await new Promise((resolve) => relay.send('listen', server, resolve));
  server.close();
  return `https://127.0.0.1:${port}`;
}
