import type { Box } from './box.ts';
import { iptablesOf, PROTOCOLS, type Protocol, type Way } from './edits.ts';
import { unnumbered } from './own-sets.ts';

/** What a kernel holds, without handles and counts. */
export interface KernelState {
  /** The agent's tables, or its chains and the jumps to them. */
  readonly own: string;
  /** The rules of `nat` that are not the agent's; undefined if iptables cannot list one of them. */
  readonly foreign: string | undefined;
}

/**
 * The agent's rules without a second chain that nothing of the agent leads to, and which changes no packet: after the first
 * look, the agent does not ask whether another program has made one.
 */
export function withoutOrphans(own: string): string {
  const parts = own.split('\n\n');
  const isOrphan = (part: string, line: string) =>
    /^-[NA] IP-MASQ-AGENT-FROM(?: |$)/.test(line) && !/ -g IP-MASQ-AGENT-FROM$/m.test(part);
  const kept = parts.map((part) => (part.match(LINE) ?? []).filter((line) => !isOrphan(part, line)));
  return kept.map((lines) => lines.join('\n')).join('\n\n');
}

/** Reads both families of these dataplanes. */
export async function kernelState(box: Box, ...ways: readonly Way[]): Promise<KernelState> {
  const states = await Promise.all(
    ways.flatMap((way) => PROTOCOLS.map((protocol) => familyState(box, way, protocol))),
  );
  return {
    own: states.map(({ own }) => own).join('\n\n'),
    foreign: states.every(({ foreign }) => foreign !== undefined)
      ? states.map(({ foreign }) => foreign).join('\n\n')
      : undefined,
  };
}

/** Deletes all rules of all programs. */
export async function empty(box: Box): Promise<void> {
  const legacy = ['iptables-legacy-restore', 'ip6tables-legacy-restore'];
  await Promise.all([
    box.run('nft', ['flush', 'ruleset']),
    ...legacy.map((tool) => box.run(tool, [], { input: '*nat\nCOMMIT\n' })),
  ]);
}

async function familyState(box: Box, way: Way, protocol: Protocol): Promise<KernelState> {
  if (way === 'nftables') {
    const { stdout } = await box.run('nft', ['list', 'table', protocol, 'ip-masq-agent']);
    return { own: comparable(stdout), foreign: '' };
  }
  const { code, stdout } = await box.run(iptablesOf(way, protocol), ['-t', 'nat', '-S']);
  return code === 0 ? ownAndForeign(stdout) : { own: '', foreign: undefined };
}

const NFT_PART = /^\t(?:set|chain) .*?^\t\}$/gms;

/**
 * A listing of nft(8) without counts and numbers of sets; the sets, the chains, and the elements of each set, in an order that
 * does not depend on the kernel: it lists sets and chains in the order in which they were made.
 */
export function comparable(listing: string): string {
  const text = unnumbered(listing);
  const parts = text.match(NFT_PART) ?? [];
  return [text.replace(NFT_PART, ''), ...parts.toSorted()]
    .join('\n')
    .replace(/\bcounter packets \d+ bytes \d+/g, 'counter')
    .replace(/elements = \{([^}]*)\}/g, (_, list: string) => {
      const elements = list.split(',').map((text) => text.trim());
      return `elements = { ${elements.toSorted().join(', ')} }`;
    });
}

/** A line of `iptables -S`; texts in quotes may hold line breaks. */
const LINE = /(?:"(?:\\.|[^"\\])*"|[^\n"])+/gs;
const OWN_CHAIN = /^-[NA] IP-MASQ-AGENT(?:-FROM)?(?: |$)/;
const OWN_JUMP = /^-A POSTROUTING .*-[jg] IP-MASQ-AGENT$/s;
const EMPTY_SECOND = '-N IP-MASQ-AGENT-FROM';

function ownAndForeign(listing: string): KernelState {
  const lines = listing.match(LINE) ?? [];
  const isOwn = (line: string) => OWN_CHAIN.test(line) || OWN_JUMP.test(line);
  const foreign = lines.filter((line) => !isOwn(line));
  const own = lines.filter(isOwn);
  // A chain to which a foreign rule leads cannot be deleted.
  const isUndeletable =
    foreign.some((line) => / -[jg] IP-MASQ-AGENT-FROM$/.test(line)) &&
    !own.some((line) => line.startsWith('-A IP-MASQ-AGENT-FROM '));
  const kept = own.filter((line) => !isUndeletable || line !== EMPTY_SECOND);
  return { own: kept.join('\n'), foreign: foreign.join('\n') };
}
