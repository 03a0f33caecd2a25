import { REASONS } from './decide.ts';
import type { PublisherState } from './publisher.ts';

/** The metrics by name without the prefix: type, label and meaning. The documentation is made from this table too. */
export const METRICS = {
  build_info: ['gauge', 'version', 'Always 1; the label names the build.'],
  writing_stopped: ['gauge', 'reason', '1 for the reason why the list is not written now, else 0.'],
  writes_total: ['counter', '', 'How often the ConfigMap was written.'],
  rejected_ranges: ['gauge', '', 'Ranges that are left out: outside of --within, or not CIDRs.'],
} as const;

/** The metrics in the text format of Prometheus. */
export function metricsText({ refusal, writes, rejected }: PublisherState, version: string): string {
  const values: Readonly<Record<keyof typeof METRICS, readonly (readonly [string, boolean | number])[]>> = {
    build_info: [[version, 1]],
    writing_stopped: Object.keys(REASONS).map((reason) => [reason, refusal?.reason === reason]),
    writes_total: [['', writes]],
    rejected_ranges: [['', rejected]],
  };
  const lines = Object.entries(METRICS).flatMap(([suffix, [type, label, help]]) => {
    const name = `ip_masq_ranges_${suffix}`;
    const samples = values[suffix as keyof typeof METRICS].map(
      ([text, value]) => `${name}${label && `{${label}="${text}"}`} ${Number(value)}`,
    );
    return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples];
  });
  return `${lines.join('\n')}\n`;
}
