import type { Box } from './box.ts';
import { iptablesOf, PROTOCOLS, type Protocol, type Way } from './edits.ts';
import { unnumbered } from './own-sets.ts';

/** The agent's rules of both families, without handles and counts: its tables, or its chains and the jumps to them. */
export async function kernelState(box: Box, way: Way): Promise<string> {
  const states = await Promise.all(PROTOCOLS.map((protocol) => familyState(box, way, protocol)));
  return states.join('\n\n');
}

/** Deletes all rules of all programs. */
export async function empty(box: Box): Promise<void> {
  const legacy = ['iptables-legacy-restore', 'ip6tables-legacy-restore'];
  await Promise.all([
    box.run('nft', ['flush', 'ruleset']),
    ...legacy.map((tool) => box.run(tool, [], { input: '*nat\nCOMMIT\n' })),
  ]);
}

async function familyState(box: Box, way: Way, protocol: Protocol): Promise<string> {
  if (way === 'nftables') {
    const { stdout } = await box.run('nft', ['list', 'table', protocol, 'ip-masq-agent']);
    return comparable(stdout);
  }
  const { stdout } = await box.run(iptablesOf(way, protocol), ['-t', 'nat', '-S']);
  return ownRules(stdout);
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

function ownRules(listing: string): string {
  const lines = listing.match(LINE) ?? [];
  const isOwn = (line: string) => OWN_CHAIN.test(line) || OWN_JUMP.test(line);
  const own = lines.filter(isOwn);
  // A chain to which a foreign rule leads cannot be deleted.
  const isUndeletable =
    lines.some((line) => !isOwn(line) && / -[jg] IP-MASQ-AGENT-FROM$/.test(line)) &&
    !own.some((line) => line.startsWith('-A IP-MASQ-AGENT-FROM '));
  return own.filter((line) => !isUndeletable || line !== EMPTY_SECOND).join('\n');
}
