import {
  dataplaneOf,
  findHolder,
  type Holder,
  otherConfigReasons,
  vanishedFilesOf,
} from '../agent/holder.ts';
import type { ReaderOptions } from '../agent/reading.ts';
import { type NodeAccess, survey } from '../agent/rule-locations.ts';
import type { Prefix } from '../cidr/prefix.ts';
import type { MergedConfig } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import type { RuleLocation } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { IPTABLES_OF } from '../dataplane/iptables/tool.ts';
import { readSuspects } from '../foreign/read-suspects.ts';
import type { Suspects } from '../foreign/suspects.ts';
import { usableSourceAddresses } from '../node/own-addresses.ts';
import type { FindPods } from '../policy/masqueraded-pod-routes.ts';
import { compilePolicy, type Family } from '../policy/policy.ts';
import { counted } from '../text/words.ts';
import { configFindings, leftOutFindings, podFindings, vanishedFindings } from './config-findings.ts';
import type { Finding } from './finding.ts';
import { flowFindings } from './flow-findings.ts';
import { portFindings, uplinkFindings } from './machine-findings.ts';
import { preview } from './preview.ts';
import { holderFindings, leftoverFindings, ownRuleFindings } from './rule-findings.ts';

export interface Examination {
  readonly findings: readonly Finding[];
  /** What was read, in words. */
  readonly read: readonly string[];
  /** What else does NAT on the node. */
  readonly suspects: Suspects;
}

interface Examiner extends NodeAccess {
  readonly loading: ReaderOptions;
  /** Ranges of pods that the config, or another program, masquerades on purpose. */
  readonly accepted: readonly Prefix[];
  readonly findPods: FindPods;
}

/** Examines the node and changes nothing. If it cannot read something, that is a finding too. */
export async function examine(examiner: Examiner): Promise<Examination> {
  const { configDir, config: configOptions } = examiner.loading;
  const { host } = examiner;
  const loaded = await loadConfig(configDir, configOptions);
  const { families } = configOptions;
  const holder = await findHolder();
  const { config } = loaded;
  const own = usableSourceAddresses();
  const policies = config === undefined ? [] : families.map((family) => compilePolicy(config, family, own));
  const usesOther = otherConfigReasons(holder).length > 0;
  const findings = [
    ...configFindings(loaded, policies),
    ...vanishedFindings(vanishedFilesOf(holder)),
    ...(usesOther ? [] : await podFindings(examiner.findPods, loaded.config, families)),
    ...(usesOther ? [] : await leftOutFindings(host, policies)),
    ...(await uplinkFindings(host, policies)),
    ...(await portFindings(host, examiner.dataplane)),
  ];
  const defaults = loaded.configFiles.length > 0 ? '' : ': the defaults apply';
  const read = `${counted(loaded.configFiles.length, 'config file')} in ${configDir}${defaults}`;
  const kernel = await examineKernel(examiner, holder, loaded.config, families);
  return { ...kernel, findings: [...findings, ...kernel.findings], read: [read, ...kernel.read] };
}

async function examineKernel(
  examiner: Examiner,
  holder: Holder,
  config: MergedConfig | undefined,
  families: readonly Family[],
): Promise<Examination> {
  const { dataplane: options, host, accepted } = examiner;
  const usesOther = otherConfigReasons(holder).length > 0;
  const findings: Finding[] = [];
  const read: string[] = [];
  let suspects: Suspects = { suspects: [], postrouting: [], unread: [] };
  const collect = async (found: () => Promise<readonly Finding[]>, family?: Family): Promise<void> => {
    findings.push(...(await found().catch((error: unknown) => dataplaneFinding(error, family))));
  };
  await collect(async () => {
    const surveyed = await survey(examiner);
    const { dataplane, used, others } = surveyed;
    const told = dataplaneOf(holder);
    // A command takes it over from the agent as a flag. Only the agent knows why.
    const { name, reason } = told?.name === dataplane.name ? told : dataplane;
    read.push(`${name}: ${reason}`);
    findings.push(...holderFindings(holder, surveyed));
    for (const location of used) {
      const { family } = location;
      if (families.includes(family)) await collect(() => writerFindings(host, location), family);
      if (config === undefined || usesOther) continue;
      await collect(async () => ownRuleFindings(preview(location, config, families), holder), family);
    }
    await collect(async () => {
      const asked = { families, ownChain: options.chain, iptables: dataplane.iptables };
      suspects = await readSuspects(host, asked);
      if (config === undefined || usesOther) {
        read.push('connections: not judged, because the config in use is not what the files say');
        return [];
      }
      const own = usableSourceAddresses();
      const policies = families.map((family) => compilePolicy(config, family, own));
      const flows = await flowFindings(host, policies, accepted, suspects, holder);
      read.push(flows.read);
      return flows.findings;
    });
    for (const location of others)
      await collect(async () => leftoverFindings(dataplane, location), location.family);
    return [];
  });
  return { suspects, findings, read };
}

/** Throws if the program that writes the agent's rules is missing: reading them does not need it. */
async function writerFindings(host: Host, { dataplane, family }: RuleLocation): Promise<readonly Finding[]> {
  if (dataplane.iptables === undefined) return [];
  await host.run(`${IPTABLES_OF[family]}${dataplane.iptables.suffix}-restore`, ['--version']);
  return [];
}

/** The error as a finding; none if the kernel does not support such rules of a family, because then there are none. */
function dataplaneFinding(error: unknown, family?: Family): readonly Finding[] {
  if (!(error instanceof DataplaneError)) throw error;
  const { failure, message, remedy } = error;
  if (failure === 'unsupported' && family !== undefined) return [];
  const kind = failure === 'missing' ? 'tool-missing' : 'kernel-refused';
  return [{ kind, ...(family !== undefined && { family }), message, evidence: [], remedy }];
}
