import { loadConfig } from '../../config/load.ts';
import { DataplaneError } from '../../dataplane/error.ts';
import type { Host } from '../../dataplane/host.ts';
import { installedIptables } from '../../dataplane/iptables/installed.ts';
import { type DataplaneOptions, openDataplane, openPlaces } from '../../dataplane/open.ts';
import { compilePolicy } from '../../policy/policy.ts';
import { goalsFor, preview } from '../preview.ts';
import type { SourcesOptions } from '../sources.ts';
import { configFindings } from './config.ts';
import type { Family, Finding } from './finding.ts';
import { capabilityFindings, forwardingFindings } from './machine.ts';
import { bothModesFindings, elsewhereFindings, neighbourFindings, ownRuleFindings } from './rules.ts';

/** A look at the node. */
export interface Examination {
  readonly findings: readonly Finding[];
  /** What was looked at, in words. */
  readonly seen: readonly string[];
}

/** Looks at the node and changes nothing. What cannot be looked at is a finding too. */
export async function examine(
  { configDir, config: configOptions }: SourcesOptions,
  options: DataplaneOptions,
  host: Host,
): Promise<Examination> {
  const { enableIPv6 } = configOptions;
  const families: readonly Family[] = enableIPv6 ? ['IPv4', 'IPv6'] : ['IPv4'];
  const loaded = await loadConfig(configDir, configOptions);
  const { config, sources } = loaded;
  const findings = [
    ...configFindings(configDir, loaded),
    ...(await forwardingFindings(host, families)),
    ...(await capabilityFindings(host)),
  ];
  const seen = [`${sources.length} source${sources.length === 1 ? '' : 's'} in ${configDir}`];
  const look = async (found: () => Promise<readonly Finding[]>): Promise<void> => {
    findings.push(...(await found().catch(dataplaneFinding)));
  };
  if (findings.some(({ kind }) => kind === 'no-capability')) return { findings, seen };

  await look(async () => {
    const dataplane = await openDataplane(options, host);
    seen.push(`${dataplane.name}: ${dataplane.reason}`);
    for (const goal of config === undefined ? [] : goalsFor(config, enableIPv6))
      await look(async () => ownRuleFindings(await preview(dataplane, [goal])));
    await look(async () => {
      const rules = await dataplane.survey(families);
      seen.push(...rules.baseChains.map(({ where }) => where));
      return neighbourFindings(
        rules,
        config === undefined ? [] : families.map((family) => compilePolicy(config, family)),
      );
    });
    const modes = await installedIptables(options, host);
    for (const family of families) await look(() => bothModesFindings(modes, family));
    for (const place of await openPlaces(options, host))
      await look(() => elsewhereFindings(dataplane, place));
    return [];
  });
  return { findings, seen };
}

function dataplaneFinding(error: unknown): readonly Finding[] {
  if (!(error instanceof DataplaneError)) throw error;
  const { failure, message, remedy } = error;
  return [
    { kind: failure === 'missing' ? 'tool-missing' : 'kernel-refused', message, evidence: [message], remedy },
  ];
}
