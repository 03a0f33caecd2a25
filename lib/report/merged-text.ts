import type { Family } from '../cidr/address.ts';
import type { MergedConfig } from '../config/config.ts';
import { configHash } from '../config/config-hash.ts';
import { printable } from '../text/escape.ts';
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
  return `${configFileText(config, families)}\nconfig hash ${configHash(config)}, without flags: nodes with equal hashes have an equal config, not always equal rules\n`;
}
