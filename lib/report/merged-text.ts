import { sizeOf } from '../cidr/ranges.ts';
import type { MergedConfig } from '../config/config.ts';
import { configHash } from '../config/config-hash.ts';
import { notMasqueradedDestinations } from '../policy/flatten.ts';
import { compilePolicy, type Family } from '../policy/policy.ts';
import { printable } from '../text/escape.ts';
import { counted, countedAddresses } from '../text/words.ts';
import { configFileText } from './config-file-text.ts';
import type { AgentReport, CheckReport } from './report.ts';

/** The merged config and its size, of each agent if manifests start some; of an error only which agents these are. */
export function mergedTexts({ config, agents = [] }: CheckReport, families: readonly Family[]): string {
  if (agents.length === 0) return config === undefined ? '' : mergedText(config, families);
  return agents
    .map(
      (agent) =>
        `${headOf(agent)}${agent.config && config ? mergedText(agent.config, agent.families) : ''}\n`,
    )
    .join('');
}

function headOf({ name, flags, unknown }: AgentReport): string {
  const own = flags.length === 0 ? 'no flag of its own that decides here' : flags.join(' ');
  const not = unknown.length === 0 ? '' : `; known only in the cluster: ${unknown.join(' ')}`;
  return `# ${printable(`${name} with ${own}${not}`)}\n`;
}

function mergedText(config: MergedConfig, families: readonly Family[]): string {
  const configFile = configFileText(config, families);
  const sizes = families.map((family) => `${sizeLine(config, family)}\n`);
  return `${configFile}\n${sizes.join('')}config hash ${configHash(config)}, without flags: nodes with equal hashes have an equal config, not always equal rules\n`;
}

/** The number of addresses that are not masqueraded. An address in several entries counts once, exceptions do not. */
function sizeLine(config: MergedConfig, family: Family): string {
  const set = notMasqueradedDestinations(compilePolicy(config, family));
  const size = sizeOf(set.ranges);
  const are = size === 1n ? 'is' : 'are';
  return `${family}: ${counted(set.ranges.length, 'range')}, ${countedAddresses(size)} ${are} not masqueraded`;
}
