import type { Dataplane } from '../dataplane.ts';
import { readNode } from '../foreign/node.ts';
import type { Host } from '../host.ts';
import { countTable } from './count.ts';
import { observe } from './observe.ts';
import type { NftablesOptions } from './options.ts';
import { plan, planRemoval } from './plan.ts';
import { openNft } from './tool.ts';
import { kernelVerdict } from './verdict.ts';

/**
 * The policy as one interval set in a table of our own.
 *
 * @throws {DataplaneError} where nft is not installed, or too old
 */
export async function openNftables(options: NftablesOptions, host: Host): Promise<Dataplane> {
  const tool = await openNft(host);
  return {
    name: `nftables ${tool.version}`,
    reason: 'set by --backend',
    async observe(family) {
      const observed = await observe(tool, family);
      return {
        plan: (policy) => plan(observed, policy, options),
        planRemoval: () => planRemoval(observed),
        verdict: (address) => kernelVerdict(observed, options, address),
      };
    },
    apply: ({ script }) => tool.run(script),
    count: async (policy) => countTable(await observe(tool, policy.family), policy, options),
    survey: (families) => readNode(host, { families, ownChain: options.chain, iptables: undefined }),
  };
}
