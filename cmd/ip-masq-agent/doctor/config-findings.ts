import type { LoadedConfig } from '../../../lib/config/load.ts';
import { formatProblem } from '../../../lib/config/problem.ts';
import type { Finding } from '../../../lib/neighbours/finding.ts';
import { counted } from '../../../lib/text/words.ts';

/** What is wrong with the config directory and the sources in it. */
export function configFindings(dir: string, { config, problems, sources }: LoadedConfig): readonly Finding[] {
  const errors = problems.filter(({ severity }) => severity === 'error');
  const evidence = errors.map(formatProblem);
  if (errors.some(({ at }) => at === undefined)) {
    return [
      {
        kind: 'config-unreadable',
        message: `the config directory ${dir} cannot be read`,
        evidence,
        remedy: 'mount the volume there, or name the right directory with --config-dir',
      },
    ];
  }
  if (config === undefined) {
    return [
      {
        kind: 'config-invalid',
        message: `the config has ${counted(errors.length, 'error')}`,
        evidence,
        remedy: 'repair the sources: ip-masq-agent check shows each error in its line',
      },
    ];
  }
  if (sources.length > 0) return [];
  return [
    {
      kind: 'config-empty',
      message: 'there is no source: the defaults apply',
      evidence: [`${dir} has no file ip-masq-*`],
      remedy: 'mount the ConfigMaps there, under names that begin with ip-masq-',
    },
  ];
}
