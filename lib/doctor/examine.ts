import { dataplaneOf, findHolder, type Holder, vanishedFilesOf } from '../agent/holder.ts';
import type { ReaderOptions } from '../agent/load.ts';
import { preview } from '../agent/preview.ts';
import { retrying } from '../agent/retry.ts';
import { type NodeAccess, survey } from '../agent/rule-locations.ts';
import type { MergedConfig } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import type { RuleLocation } from '../dataplane/dataplane.ts';
import { DataplaneError } from '../dataplane/error.ts';
import type { Host } from '../dataplane/host.ts';
import { IPTABLES_OF } from '../dataplane/iptables/tool.ts';
import { listRuleLocations } from '../dataplane/open.ts';
import { Budget, COMMAND_LIMITS } from '../foreign/budget.ts';
import { readNode } from '../foreign/read-node.ts';
import { usableSourceAddresses } from '../node/own-addresses.ts';
import type { FindPods } from '../policy/masqueraded-pod-routes.ts';
import { compilePolicy, type Family } from '../policy/policy.ts';
import { counted } from '../text/words.ts';
import { configFindings, podFindings, vanishedFindings } from './config-findings.ts';
import type { Finding } from './finding.ts';
import { invalidPacketFindings, kubeProxyDropsInvalid } from './invalid-packets.ts';
import {
  bpfFindings,
  capabilityFindings,
  conntrackFindings,
  forwardingFindings,
  uplinkFindings,
} from './machine-findings.ts';
import {
  bothModesFindings,
  foreignFindings,
  forwardFindings,
  holderFindings,
  leftoverFindings,
  natFindings,
  orderFindings,
  ownRuleFindings,
} from './rule-findings.ts';

export interface Examination {
  readonly findings: readonly Finding[];
  /** What was read, in words. */
  readonly read: readonly string[];
}

interface Examiner extends NodeAccess {
  readonly loading: ReaderOptions;
  /** The ids of authors whose foreign rules are accepted. */
  readonly acceptForeign: readonly string[];
  readonly findPods: FindPods;
}

/** Examines the node and changes nothing. If it cannot read something, that is a finding too. */
export async function examine(examiner: Examiner): Promise<Examination> {
  const { configDir, config: configOptions } = examiner.loading;
  const { host } = examiner;
  const loaded = await loadConfig(configDir, configOptions);
  const { families } = configOptions;
  const capabilities = await capabilityFindings(host, examiner.dataplane.backend);
  const holder = await findHolder();
  // With the last texts of others, the agent's config is another one.
  const gone = vanishedFindings(vanishedFilesOf(holder));
  const findings = [
    ...configFindings(configDir, loaded, families, usableSourceAddresses()),
    ...gone,
    ...(gone.length > 0 ? [] : await podFindings(examiner.findPods, loaded.config, families)),
    ...(await forwardingFindings(host, families)),
    ...(await uplinkFindings(host, loaded.config, families)),
    ...(await conntrackFindings(host)),
    ...(await bpfFindings(host)),
    ...capabilities,
  ];
  const read = [`${counted(loaded.configFiles.length, 'config file')} in ${configDir}`];
  if (capabilities.length === 0) {
    const kernel = await examineKernel(examiner, holder, loaded.config, families);
    findings.push(...kernel.findings);
    read.push(...kernel.read);
  } else {
    // To look for the tools needs no capability.
    await listRuleLocations(examiner.dataplane, host).catch((error: unknown) =>
      findings.push(...dataplaneFinding(error)),
    );
  }
  return { findings: findings.filter(isFirst), read };
}

async function examineKernel(
  examiner: Examiner,
  holder: Holder,
  config: MergedConfig | undefined,
  families: readonly Family[],
): Promise<Examination> {
  const { dataplane: options, host, acceptForeign, retry } = examiner;
  const hasVanished = vanishedFilesOf(holder).length > 0;
  const findings: Finding[] = [];
  const read: string[] = [];
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
      if (families.includes(location.family))
        await collect(() => writerFindings(host, location), location.family);
      if (config === undefined || hasVanished) continue;
      await collect(async () => ownRuleFindings(preview(location, config, families)), location.family);
    }
    for (const family of families) {
      const isDropped = await kubeProxyDropsInvalid(host, family);
      read.push(
        `packets that conntrack refuses (${family}): ${isDropped ? '' : 'not '}dropped by kube-proxy`,
      );
      findings.push(...invalidPacketFindings(options, dataplane, family, isDropped));
    }
    await collect(async () => {
      const { iptables } = dataplane;
      const nodeOptions = { families, ownChain: options.chain, iptables, withFilters: true };
      const readAll = () => readNode(host, nodeOptions, new Budget(COMMAND_LIMITS));
      const node = await retrying(readAll, retry);
      read.push(...node.baseChains.map(({ chainText }) => chainText), ...node.skipped);
      const policies = families.map((family) =>
        config === undefined ? family : compilePolicy(config, family),
      );
      if (config === undefined)
        read.push('foreign rules that prevent masquerading: not looked for, because the config is invalid');
      return [
        ...orderFindings(node, acceptForeign),
        ...(await foreignFindings(node, policies, acceptForeign)),
      ];
    });
    await collect(() => natFindings(host, dataplane, families));
    for (const family of families) {
      await collect(() => forwardFindings(host, family), family);
      await collect(() => bothModesFindings(host, [...used, ...others], family), family);
    }
    for (const location of others)
      await collect(async () => leftoverFindings(dataplane, location), location.family);
    return [];
  });
  return { findings, read };
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

/** Whether the finding is new: one error may stop several examinations. Findings with evidence are always kept. */
function isFirst({ kind, message, evidence }: Finding, index: number, findings: readonly Finding[]): boolean {
  if (evidence.length > 0) return true;
  return findings.findIndex((other) => other.kind === kind && other.message === message) === index;
}
