/** What of Debian's packages gets into the image, and where to. */

/** The packages that the agent and its Node.js need, besides what these depend on. */
export const WANTED: readonly string[] = ['iptables', 'nftables', 'libstdc++6'];

/** Directories of old that are links in a Debian with a merged /usr, which all of today are. */
export const MERGED: readonly string[] = ['bin', 'lib', 'lib64', 'sbin'];

/** `iptables` and its like are no files of a package: Debian links them to a mode when it is set up. */
export const LINKS: Readonly<Record<string, string>> = Object.fromEntries(
  ['iptables', 'ip6tables'].flatMap((command) =>
    ['', '-restore', '-save'].map((suffix) => [`/usr/sbin/${command}${suffix}`, `${command}-nft${suffix}`]),
  ),
);

/**
 * The commands that a dataplane runs, and their like for people; libraries, the extensions of iptables,
 * and names of protocols. No scripts, no ebtables and arptables, no character sets, no manuals.
 */
const KEPT: readonly RegExp[] = [
  /^\/usr\/sbin\/(?:ip6?tables-(?:nft|legacy)(?:-restore|-save)?|xtables-(?:nft|legacy)-multi|nft)$/,
  /^\/usr\/lib(?:64)?\/(?:[^/]+-linux-gnu\/)?[^/]+\.so(?:\.\d+)*$/,
  /^\/usr\/lib\/[^/]+-linux-gnu\/xtables\/lib(?:xt|ipt|ip6t)_[^/]+\.so$/,
  /^\/etc\/(?:protocols|services)$/,
];

/** Where a path of a package is in the image; undefined where the image leaves it out. */
export function keptPath(path: string): string | undefined {
  const [, top = ''] = path.split('/');
  const merged = MERGED.includes(top) ? `/usr${path}` : path;
  return KEPT.some((pattern) => pattern.test(merged)) ? merged : undefined;
}
