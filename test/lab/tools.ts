/** Runs tools in the box that it is in. */
import { systemHost } from '../../lib/dataplane/host.ts';
import { answer } from './helper.ts';
const host = systemHost(30_000);
answer<any, any>(({ file, args, input }) => host.run(file, args, input));
