import type { Host } from '../../lib/dataplane/host.ts';
import type { Box } from './box.ts';
import { startHelper } from './helper.ts';
import { hostNetlink } from './netlink.ts';
import { owning } from './owning.ts';
import type { Errand, Outcome } from './tools.ts';

/** The inside of a box as a dataplane sees it. */
export interface HeldHost extends Host, AsyncDisposable {}

/** One process in the box starts all tools: entering the box takes as long as most of them run. */
export const startHost = (box: Box): Promise<HeldHost> =>
  owning(async (stack) => {
    const helper = stack.use(await startHelper<Errand, Outcome>(box, new URL('tools.ts', import.meta.url)));
    const { netlink } = stack.use(await hostNetlink(box));
    return {
      netlink,
      async run(file, args, input) {
        const { result } = await helper.ask({ file, args, input });
        if (result === undefined) throw new Error(`${file} has no result`);
        return result;
      },
      readText: async (path) => (await helper.ask({ path })).text,
    };
  });
