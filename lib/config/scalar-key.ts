import type { Advice } from '../text/advice.ts';
import { quote } from '../text/escape.ts';
import type { Located } from '../text/origin.ts';
import { scalarLine } from './config-file-lines.ts';
import { DURATION_PATTERN, formatDuration, intervalError, parseDuration } from './duration.ts';
import type { Key, KeyTraits } from './key.ts';

const UNSET: Located<boolean> = { value: false, origin: { kind: 'built-in', basis: 'default' } };

/** A boolean; if any config file sets true, true wins. */
export function booleanKey<const Name extends string>(
  name: Name,
  traits: KeyTraits,
): Key<Name, 'flag', Located<boolean> | undefined, Located<boolean>> {
  return {
    ...traits,
    name,
    kind: 'flag',
    schema: { type: 'boolean', default: UNSET.value },
    itemKeys: [],
    jsonSchema: { [name]: { type: 'boolean' } },
    remedy: () => 'write true or false, without quotes',
    parse(node, { located }) {
      if (node?.kind !== 'scalar' || typeof node.value !== 'boolean') return undefined;
      return located(node.value, node);
    },
    merge(configs) {
      const all = configs.flatMap((config) => config[name] ?? []);
      return all.find(({ value }) => value) ?? all[0] ?? UNSET;
    },
    setAt: ({ [name]: { value, origin } }) => (value === UNSET.value ? undefined : origin),
    json: ({ [name]: { value } }) => ({ [name]: value }),
    lines: ({ [name]: all }) => [scalarLine(name, String(all.value), all)],
    logValue: ({ [name]: { value } }) => value,
    plainValue: ({ [name]: { value } }) => value,
  };
}

type Duration = Located<number> | undefined;

/** A Go duration, in milliseconds; the first config file that sets it decides, and the others must agree. */
export function durationKey<const Name extends string>(
  name: Name,
  traits: KeyTraits,
): Key<Name, 'duration', Duration, Duration> {
  return {
    ...traits,
    name,
    kind: 'duration',
    schema: { type: 'string', pattern: DURATION_PATTERN },
    itemKeys: [],
    jsonSchema: {
      [`${name}Ms`]: { description: 'Null if no config file sets it.', type: ['number', 'null'] },
    },
    remedy: () => 'write a Go duration such as "60s"',
    parse(node, { located, report }) {
      if (node?.kind !== 'scalar' || typeof node.value !== 'string') return undefined; // the schema said so
      const milliseconds = parseDuration(node.value);
      if (intervalError(node.value) === undefined && milliseconds !== undefined)
        return located(milliseconds, node);
      const { message, remedy } = durationAdvice(name, node.value);
      report('duration', node, message, remedy);
      return undefined;
    },
    merge: (configs) => configs.flatMap((config) => config[name] ?? [])[0],
    setAt: ({ [name]: located }) => located?.origin,
    json: ({ [name]: located }) => ({ [`${name}Ms`]: located?.value ?? null }),
    lines: ({ [name]: located }) =>
      located ? [scalarLine(name, formatDuration(located.value), located)] : [],
    logValue: ({ [name]: located }) => located?.value,
    plainValue: ({ [name]: located }) => located?.value,
  };
}

/** What is wrong with a text as an interval. */
export function durationAdvice(what: string, text: string): Advice {
  const message = `${what} ${quote(text)} ${intervalError(text)}`;
  return { message, remedy: 'write a Go duration such as 60s or 1m30s, from 100ms to 576h' };
}
