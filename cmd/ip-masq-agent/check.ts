import { checkPaths } from '../../lib/lint/check.ts';
import { githubReport } from '../../lib/lint/github.ts';
import { jsonReport } from '../../lib/lint/json.ts';
import type { CheckReport } from '../../lib/lint/report.ts';
import { sarifReport } from '../../lib/lint/sarif.ts';
import { singleSource, sourceText } from '../../lib/lint/single-source.ts';
import { textReport } from '../../lib/lint/text-report.ts';
import { buildInfo } from './build-info.ts';
import type { Args } from './command.ts';
import type { CHECK_FLAGS } from './command-flags.ts';
import { EXIT } from './exit.ts';
import { configOptions } from './from-flags.ts';
import { print, wantsColour } from './print.ts';

type CheckFlags = Args<typeof CHECK_FLAGS>['flags'];

/** Validates and merges config without a kernel. */
export async function check({ flags, operands }: Args<typeof CHECK_FLAGS>): Promise<number> {
  const paths = operands.length === 0 ? [flags['config-dir']] : operands;
  const report = await checkPaths(paths, configOptions(flags), () => process.stdin);
  print(format(report, flags));
  return report.config === undefined ? EXIT.config : EXIT.ok;
}

function format(report: CheckReport, flags: CheckFlags): string {
  switch (flags.output) {
    case 'text': {
      const merged = report.config && `${sourceText(singleSource(report.config, flags['enable-ipv6']))}\n`;
      return `${merged ?? ''}${textReport(report, { colour: wantsColour(process.stdout) })}`;
    }
    case 'json':
      return jsonReport(report);
    case 'github':
      return githubReport(report);
    case 'sarif':
      return sarifReport(report, buildInfo());
  }
}
