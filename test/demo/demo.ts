/**
 * Shows the agent at work with real packets: `make demo`. Root is not needed, and the machine's own rules
 * and network stay as they are: all happens in namespaces that the kernel removes when this ends, however it ends.
 */
import { readlinkSync } from 'node:fs';
import { reexecute } from './isolate.ts';
import { tell } from './story.ts';

const LEFT = '--left=';

const netns = readlinkSync('/proc/self/ns/net');
const left = process.argv.find((arg) => arg.startsWith(LEFT))?.slice(LEFT.length);
if (left === undefined) {
  process.exitCode = await reexecute(import.meta.filename, [`${LEFT}${netns}`]);
} else if (left === netns) {
  throw new Error('the demo must not touch the network that it was started in');
} else {
  // As the first process of its pid namespace: the kernel ends all others with this one (pid_namespaces(7)).
  process.on('disconnect', () => process.exit(1));
  process.exit((await tell()) ? 0 : 1);
}
