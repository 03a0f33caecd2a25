import { configChangeLines } from '../../lib/policy/changes.ts';
import type { Options } from '../../lib/ranges/decide.ts';
import { mergedWith, NAME, type Objects, planFor, textOf } from '../../lib/ranges/plan.ts';
import { printable } from '../../lib/text/escape.ts';
import { EXIT } from '../ip-masq-agent/exit.ts';
import { print, printError } from '../ip-masq-agent/print.ts';
import { exitCode } from './flags.ts';

/** Prints the config file, and on standard error what `ip-masq-agent render --diff-to` says of it. Returns the exit code. */
export function dryRun(objects: Objects, options: Options): number {
  const plan = planFor(objects, [], Date.now(), options);
  for (const one of plan.rejected) printError(printable(one));
  if (plan.refusal !== undefined) {
    printError(printable(`${NAME}: the list is not written: ${plan.refusal.message}`));
    return exitCode(plan.refusal);
  }
  const written = objects.own?.data?.[NAME];
  const text = textOf(plan.entries, options);
  print(text);
  const [before, after] = [written, text].map((one) => mergedWith(one, objects.others, options).config);
  if (before && after)
    for (const line of configChangeLines(before, after, options.config.families).lines) printError(line);
  else printError('cannot tell which verdicts change, because the config files that are there have errors');
  return written === text ? EXIT.ok : EXIT.different;
}
