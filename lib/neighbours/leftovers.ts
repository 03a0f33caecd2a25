import type { Dataplane, Installed } from '../dataplane/dataplane.ts';
import type { Family } from '../policy/policy.ts';
import type { Finding } from './finding.ts';

/** The dataplanes and families that can have leftovers: all except those in which the agent keeps rules now. */
export function leftoverPlaces(
  installed: readonly Installed[],
  used: Dataplane,
  kept: readonly Family[],
): readonly Installed[] {
  return installed.map(({ dataplane, families }) => ({
    dataplane,
    families: dataplane.name === used.name ? families.filter((family) => !kept.includes(family)) : families,
  }));
}

/**
 * The findings about leftovers in a dataplane or mode that the agent does not use.
 *
 * @throws {DataplaneError}
 */
export async function leftoverFindings(
  used: Dataplane,
  { dataplane, families }: Installed,
): Promise<readonly Finding[]> {
  if (dataplane.name === used.name) return [];
  const findings: Finding[] = [];
  for (const family of families) {
    const leftover = (await dataplane.observe(family)).remove();
    if (leftover === undefined) continue;
    findings.push({
      kind: 'chain-elsewhere',
      family,
      message: `the agent's rules are also in ${dataplane.name}, but ${used.name} is used`,
      evidence: leftover.current,
      remedy: 'stop the agent, run ip-masq-agent cleanup, start the agent again',
    });
  }
  return findings;
}
