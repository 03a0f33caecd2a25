/** What `kubectl exec -i` runs in a probe pod: joins its standard streams to the control socket. */
import { connect } from 'node:net';
import { CONTROL } from './errands.ts';

const socket = connect(CONTROL);
process.stdin.pipe(socket).pipe(process.stdout);
socket.on('close', () => process.exit());
