import { addressRemarks } from '../agent/address-remarks.ts';
import { FAMILIES, FAMILY_NAMES } from '../cidr/address.ts';
import { covers } from '../cidr/prefix.ts';
import { difference, rangeOf, rangeSet } from '../cidr/ranges.ts';
import { UNROUTED_RANGES } from '../cidr/reserved.ts';
import type { MergedConfig } from '../config/config.ts';
import { vanishedText } from '../config/config-file.ts';
import type { LoadedConfig } from '../config/load.ts';
import { formatProblem, locationText, type Remark } from '../config/problem.ts';
import type { Host } from '../dataplane/host.ts';
import { noAnswer } from '../dataplane/netlink.ts';
import { NetlinkError } from '../netlink/error.ts';
import { type PodRoute, podRoutes } from '../node/pod-routes.ts';
import type { FindPods } from '../policy/masqueraded-pod-routes.ts';
import { compilePolicy, type Family, type Policy } from '../policy/policy.ts';
import { printable } from '../text/escape.ts';
import { withOrigin } from '../text/origin.ts';
import { counted, truncated } from '../text/words.ts';
import type { Finding, FindingKind } from './finding.ts';

/** @param vanished what the agent says of config files that are gone */
export function vanishedFindings(
  vanished: readonly { readonly file: string; readonly until: string }[],
): readonly Finding[] {
  return vanished.map(({ file, until }) => ({
    kind: 'config-file-gone',
    message: printable(vanishedText(file, until)),
    evidence: [],
    remedy: 'restore its ConfigMap or key; ip-masq-agent diff shows what changes without it',
  }));
}

/**
 * The findings about the config directory and the config files in it.
 *
 * @param policies compiled for this node
 */
export function configFindings(
  dir: string,
  { config, problems, configFiles }: LoadedConfig,
  policies: readonly Policy[],
): readonly Finding[] {
  const errors = problems.filter(({ severity }) => severity === 'error');
  const evidence = errors.map(formatProblem);
  if (errors.some(({ kind, at }) => kind === 'unreadable' && at === undefined)) {
    return [
      {
        kind: 'config-unreadable',
        message: `the config directory ${dir} cannot be read`,
        evidence,
        remedy: 'mount the volume there, or set --config-dir to the right directory',
      },
    ];
  }
  if (config === undefined) {
    return [
      {
        kind: 'config-invalid',
        message: `${counted(errors.length, 'error')} in the config`,
        evidence,
        remedy: 'correct the config files: ip-masq-agent check shows the line of each error',
      },
    ];
  }
  const nothingInside = problems
    .filter(({ kind }) => kind === 'nothing-inside')
    .map((one) => placed('nothing-inside', one));
  const addresses = addressRemarks(policies).map((one) => placed('node-address', one));
  if (configFiles.length > 0) return [...nothingInside, ...addresses];
  return [
    {
      kind: 'config-empty',
      message: 'there is no config file: the defaults apply',
      evidence: [`${dir} has no file ip-masq-*`],
      remedy: 'mount ConfigMaps there, with keys that begin with ip-masq-',
    },
    ...nothingInside,
  ];
}

export async function podFindings(
  findPods: FindPods,
  config: MergedConfig | undefined,
  families: readonly Family[],
): Promise<readonly Finding[]> {
  if (config === undefined) return [];
  const policies = families.map((family) => compilePolicy(config, family));
  try {
    const found = await findPods(policies, config.configFileNames);
    return [
      ...found.map(({ range, routes, ...one }) => ({ kind: 'pods-masqueraded' as const, ...one })),
      ...(await podsWithoutRules(findPods, config, families)),
    ];
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    const message = 'pods that the config masquerades may be hidden, because routes cannot be read';
    const remedy = 'compare the ranges of pods with nonMasqueradeCIDRs by hand';
    return [{ kind: 'not-read', message, evidence: [error.message], remedy }];
  }
}

/** Pods that need masquerading to reach the outside, but are of a family for which the agent keeps no rules. */
async function podsWithoutRules(
  findPods: FindPods,
  config: MergedConfig,
  families: readonly Family[],
): Promise<readonly Finding[]> {
  const others = FAMILIES.filter((family) => !families.includes(family));
  // What a policy without entries masquerades is all that is not accepted.
  const policies = others.map((family) => compilePolicy({ ...config, nonMasqueradeCIDRs: [] }, family));
  const found = await findPods(policies, config.configFileNames);
  return found
    .filter(({ range }) => UNROUTED_RANGES.some(({ prefix }) => covers(prefix, range)))
    .map(({ family, range, routes, evidence }) => ({
      kind: 'pods-without-rules' as const,
      family,
      message: `${counted(routes, 'route')} ${routes === 1 ? 'leads' : 'lead'} to pods in ${range.text}, but the agent keeps no rules for ${family}: packets leave with these private addresses`,
      evidence,
      remedy: `start the agent with --enable-${FAMILY_NAMES[family]}, and list the ranges of pods, and of networks with routes to them, in nonMasqueradeCIDRs; if the pods need no connections to the outside, or another program masquerades, accept it: --accept-masqueraded=${range.text}`,
    }));
}

/** Pods of this node whose packets leave with their own address, because masqueradeFromCIDRs lists only others. */
export async function leftOutFindings(
  { netlink }: Pick<Host, 'netlink'>,
  policies: readonly Policy[],
): Promise<readonly Finding[]> {
  // Without routes, there is the finding that they cannot be read.
  const routes = (netlink && (await podRoutes(policies.map(({ family }) => family)).catch(noAnswer))) ?? [];
  return policies.flatMap(({ family, from }) => {
    const [listed] = from.filter(({ verdict }) => verdict === 'masqueraded');
    const known = rangeSet(
      family,
      from.map(({ prefix }) => rangeOf(prefix)),
    );
    const isLeftOut = ({ prefix, isLocal }: PodRoute) =>
      isLocal &&
      prefix.family === family &&
      difference(rangeSet(family, [rangeOf(prefix)]), known).ranges.length > 0;
    const out = routes.filter(isLeftOut);
    if (listed === undefined || out.length === 0) return [];
    return {
      kind: 'pods-left-out',
      family,
      message: `${counted(out.length, 'route')} ${out.length === 1 ? 'leads' : 'lead'} to pods of this node that masqueradeFromCIDRs does not list: their packets leave with their own address`,
      evidence: [
        `masqueradeFromCIDRs lists ${withOrigin(listed.prefix.text, listed.origin)}`,
        ...truncated(out, ROUTES_SHOWN, ({ text }) => text),
      ],
      remedy:
        'list the ranges of these pods in masqueradeFromCIDRs or, if they should keep their address, in nonMasqueradeFromCIDRs',
    };
  });
}

const ROUTES_SHOWN = 3;

function placed(kind: FindingKind, { message, remedy, at, other }: Remark): Finding {
  const evidence = [at, other].flatMap((where) => (where === undefined ? [] : locationText(where)));
  return { kind, message, evidence, remedy };
}
