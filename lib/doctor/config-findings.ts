import { addressRemarks } from '../agent/address-remarks.ts';
import { difference, rangeOf, rangeSet } from '../cidr/ranges.ts';
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
  { config, problems }: LoadedConfig,
  policies: readonly Policy[],
): readonly Finding[] {
  const errors = problems.filter(({ severity }) => severity === 'error');
  if (config === undefined) {
    return [
      {
        kind: 'config-invalid',
        message: `${counted(errors.length, 'error')} in the config`,
        evidence: errors.map(formatProblem),
        remedy: 'correct the config files: ip-masq-agent check shows the line of each error',
      },
    ];
  }
  const wholeFamilies = problems.flatMap((one) =>
    one.kind === 'nothing-inside' || one.kind === 'everything-inside' ? placed(one.kind, one) : [],
  );
  const addresses = addressRemarks(policies).map((one) => placed('node-address', one));
  return [...wholeFamilies, ...addresses];
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
    return found.map(({ range, routes, ...one }) => ({ kind: 'pods-masqueraded', ...one }));
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    const message = 'pods that the config masquerades may be hidden, because routes cannot be read';
    const remedy = 'compare the ranges of pods with nonMasqueradeCIDRs by hand';
    return [{ kind: 'not-read', message, evidence: [error.message], remedy }];
  }
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
