import { configChangeLines } from '../../lib/policy/changes.ts';
import { type Options, rejectedText } from '../../lib/ranges/decide.ts';
import { configMapOf, isWritten, mergedWith, NAME, type Objects, planFor } from '../../lib/ranges/plan.ts';
import { prettyJson, printable } from '../../lib/text/escape.ts';
import { EXIT } from '../ip-masq-agent/exit.ts';
import { print, printError } from '../ip-masq-agent/print.ts';
import { exitCode, type RangesFlags } from './flags.ts';

/** Prints the ConfigMap, and on standard error what `ip-masq-agent render --diff-to` says of it. Returns the exit code. */
export function dryRun(objects: Objects, options: Options, flags: RangesFlags): number {
  const plan = planFor(objects, [], Date.now(), options);
  for (const one of plan.rejected) printError(printable(rejectedText(one)));
  if (plan.refusal !== undefined) {
    printError(printable(`${NAME}: the list is not written: ${plan.refusal.message}`));
    return exitCode(plan.refusal);
  }
  const configMap = configMapOf(plan, flags.namespace, options);
  const text = configMap.data[NAME];
  // JSON is YAML, but the config file is easier to read as a block.
  const head = `apiVersion: v1\nkind: ConfigMap\nmetadata: ${JSON.stringify(configMap.metadata)}`;
  const yaml = `${head}\ndata:\n  ${NAME}: |\n${text?.replaceAll(/^(?=.)/gm, '    ')}`;
  print(flags.output === 'json' ? prettyJson(configMap) : yaml);
  const written = objects.own?.data?.[NAME];
  const [before, after] = [written, text].map((one) => mergedWith(one, objects.others, options).config);
  if (before && after)
    for (const line of configChangeLines(before, after, options.config.families).lines) printError(line);
  else printError('cannot tell which verdicts change, because the config files that are there have errors');
  return isWritten(configMap, objects.own) ? EXIT.ok : EXIT.different;
}
